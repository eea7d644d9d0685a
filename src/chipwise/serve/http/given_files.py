"""Inputs that come as files, pictures or recordings, as a request and the bundle describe them."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chipwise.engine.graph_session import TensorSpec
from chipwise.serve.inference.audio import GivenAudio
from chipwise.serve.inference.audio_settings import AudioSettings
from chipwise.serve.inference.image import GivenImages
from chipwise.serve.inference.image_settings import ImageSettings
from chipwise.serve.inference.tensor import bad
from chipwise.serve.models.served_graph import ServedGraph

Settings = TypeVar("Settings", bound=BaseModel)


def given_files(
    model: ServedGraph,
    spec: TensorSpec,
    data: list[Any] | str | bytes | memoryview,
    shape: Sequence[int],
    said: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    where: str,
) -> GivenImages | GivenAudio:
    """What a request gives for an input as files.

    Args:
        model: The graph, with the bundle's settings.
        spec: The input.
        data: The files.
        shape: How many, as the request says.
        said: What the request says of pictures and of recordings; None for nothing.
        where: What they are called in errors.

    Raises:
        RequestError: Something does not fit; the message names the place.
        DependencyError: There is nothing to decode them with.
    """
    image, audio = said
    if image is not None and audio is not None:
        raise bad(f"{where}.parameters", "describes a picture and a recording; an input is one of them")
    sound = audio is not None or (image is None and spec.name in model.audio)
    files = _files(data, shape, "recordings" if sound else "pictures", where)
    if sound:
        heard = _settings(AudioSettings, model.audio.get(spec.name), audio, f"{where}.parameters.audio")
        return GivenAudio(spec.name, files, heard, where).checked(spec)
    seen = _settings(ImageSettings, model.images.get(spec.name), image, f"{where}.parameters.image")
    return GivenImages(spec.name, files, seen, where).checked(spec)


def _settings(kind: type[Settings], own: Settings | None, said: Mapping[str, Any] | None, where: str) -> Settings:
    """The bundle's settings, with what the request says before them."""
    try:
        return kind.model_validate({**({} if own is None else own.model_dump(exclude_unset=True)), **(said or {})})
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        raise bad(".".join([where, *map(str, first["loc"])]), first["msg"][:1].lower() + first["msg"][1:]) from e


def _files(data: list[Any] | str | bytes | memoryview, shape: Sequence[int], kind: str, where: str) -> list[bytes]:
    """Files: base64 in JSON, or bytes with the length of each before it."""
    if isinstance(data, (bytes, memoryview)):
        # What another program could change while it is decoded is copied first.
        data, files, at = bytes(data), [], 0
        while at + 4 <= len(data):
            (size,) = struct.unpack_from("<I", data, at)
            files.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        if at != len(data):
            raise bad(f"{where}.data", f"its {kind} do not end where its bytes do")
    else:
        texts = [data] if isinstance(data, str) else data
        if not all(isinstance(text, str) for text in texts):
            raise bad(f"{where}.data", "should be a list of base64 strings")
        try:
            files = [base64.b64decode(text, validate=True) for text in texts]
        except (binascii.Error, ValueError) as e:
            raise bad(f"{where}.data", f"is no base64 ({e})") from e
    if list(shape) != [len(files)]:
        raise bad(f"{where}.shape", f"is {list(shape)}, there are {len(files)} {kind}")
    return files
