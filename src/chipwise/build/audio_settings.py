"""How recordings become a graph's inputs, as a file says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import InputError
from chipwise.files import read_bounded
from chipwise.serve.inference.audio import AudioInput
from chipwise.serve.inference.audio_settings import AudioSettings

_MAX_BYTES = 1 << 20
_REMEDY = "see docs/serving.md for its form"
_FORM: TypeAdapter[dict[str, AudioSettings]] = TypeAdapter(dict[str, AudioSettings])


def read_audio_settings(path: Path, inputs: Mapping[str, list[int | str]]) -> dict[str, Any]:
    """Read a JSON file of settings by input.

    Args:
        path: The file.
        inputs: Shapes of the graph's inputs by name; a size that is free is a string.

    Returns:
        What the file says, as plain numbers and texts.

    Raises:
        InputError: It cannot be read, is of another form, or names an input that takes no recordings.
    """
    where = str(path)
    try:
        settings = _FORM.validate_json(read_bounded(path, _MAX_BYTES))
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InputError(f"{place}: {first['msg']}", where=where, remedy=_REMEDY) from e
    for name, one in settings.items():
        sizes = tuple(size if isinstance(size, int) else None for size in inputs.get(name, ()))
        target = AudioInput.of(TensorSpec(name, sizes, None))
        if target is None:
            takes = ", ".join(f"{known} {shape}" for known, shape in inputs.items())
            raise InputError(f"{name!r} is no input that takes recordings; there are {takes}", where=where)
        if one.samples is not None and target.samples is not None:
            raise InputError(f"{name}.samples: the input has its own length, {target.samples}", where=where)
    return {name: one.model_dump(exclude_unset=True) for name, one in settings.items()}
