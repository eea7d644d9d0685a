"""How pictures and recordings become a graph's inputs, as files say it: kept in the bundle, for whoever serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chipwise.build.audio_settings import read_audio_settings
from chipwise.build.image_settings import read_image_settings
from chipwise.build.options import BuildOptions
from chipwise.errors import InputError


def read_media_settings(options: BuildOptions, inputs: Mapping[str, list[int | str]]) -> dict[str, Any]:
    """What a bundle keeps of the files, by their kind; nothing where there are none.

    Args:
        options: What was asked for.
        inputs: Shapes of the graph's inputs by name; a size that is free is a string.

    Raises:
        InputError: A file does not fit the graph.
    """
    media: dict[str, Any] = {}
    if options.images is not None:
        media["images"] = read_image_settings(options.images, inputs)
    if options.audio is not None:
        media["audio"] = read_audio_settings(options.audio, inputs)
    return media


def refuse_media(options: BuildOptions, arch: str) -> None:
    """A language model takes no files.

    Raises:
        InputError: There is a description of some.
    """
    for given, option, what in ((options.images, "--images", "pictures"), (options.audio, "--audio", "recordings")):
        if given is not None:
            raise InputError(f"{arch} is a language model: it takes no {what}", where=option, remedy="leave it out")
