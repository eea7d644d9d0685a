"""How recordings become a graph's inputs, as a file says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chipwise.build.input_settings import read_input_settings
from chipwise.serve.inference.audio import AudioInput
from chipwise.serve.inference.audio_settings import AudioSettings

_FORM: TypeAdapter[dict[str, AudioSettings]] = TypeAdapter(dict[str, AudioSettings])


def read_audio_settings(path: Path, inputs: Mapping[str, list[int | str]]) -> dict[str, Any]:
    """Read such a file; see ``read_input_settings``.

    Raises:
        InputError: It does not fit the graph.
    """
    return read_input_settings(path, inputs, _FORM, "recordings", AudioInput.of, _misfit)


def _misfit(settings: AudioSettings, target: AudioInput) -> str | None:
    if settings.samples is not None and target.samples is not None:
        return f".samples: the input has its own length, {target.samples}"
    return None
