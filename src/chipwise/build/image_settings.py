"""How pictures become a graph's inputs, as a file says it: kept in the bundle, for whoever serves it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chipwise.build.input_settings import read_input_settings
from chipwise.serve.inference.image import ImageInput
from chipwise.serve.inference.image_settings import ImageSettings

_FORM: TypeAdapter[dict[str, ImageSettings]] = TypeAdapter(dict[str, ImageSettings])


def read_image_settings(path: Path, inputs: Mapping[str, list[int | str]]) -> dict[str, Any]:
    """Read such a file; see ``read_input_settings``.

    Raises:
        InputError: It does not fit the graph.
    """
    return read_input_settings(path, inputs, _FORM, "pictures", ImageInput.of, _misfit)


def _misfit(settings: ImageSettings, target: ImageInput) -> str | None:
    for field in ("mean", "std"):
        if len(getattr(settings, field)) not in (1, target.channels):
            return f".{field}: needs 1 number or {target.channels}"
    return None
