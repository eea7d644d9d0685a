"""Settings by input: a JSON file that says how files of some kind become a graph's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from chipwise.engine.graph_session import TensorSpec
from chipwise.errors import InputError
from chipwise.files import read_bounded

_MAX_BYTES = 1 << 20
_REMEDY = "see docs/serving.md for its form"

Settings = TypeVar("Settings", bound=BaseModel)
Target = TypeVar("Target")


def read_input_settings(
    path: Path,
    inputs: Mapping[str, list[int | str]],
    form: TypeAdapter[dict[str, Settings]],
    what: str,
    target_of: Callable[[TensorSpec], Target | None],
    misfit: Callable[[Settings, Target], str | None],
) -> dict[str, Any]:
    """Read a JSON file of settings by input.

    Args:
        path: The file.
        inputs: Shapes of the graph's inputs by name; a size that is free is a string.
        form: The form of the file: settings by input.
        what: What the files are, in the plural.
        target_of: What an input is to such files; None if it takes none.
        misfit: Which of its settings an input cannot follow, and why (``.field: ...``); None if it follows all.

    Returns:
        What the file says, as plain numbers, lists and texts.

    Raises:
        InputError: It cannot be read, is of another form, names an input that takes no such files, or does not fit one.
    """
    where = str(path)
    try:
        settings = form.validate_json(read_bounded(path, _MAX_BYTES))
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise InputError(f"{place}: {first['msg']}", where=where, remedy=_REMEDY) from e
    for name, one in settings.items():
        sizes = tuple(size if isinstance(size, int) else None for size in inputs.get(name, ()))
        target = target_of(TensorSpec(name, sizes, None))
        if target is None:
            takes = ", ".join(f"{known} {shape}" for known, shape in inputs.items())
            raise InputError(f"{name!r} is no input that takes {what}; there are {takes}", where=where)
        if (reason := misfit(one, target)) is not None:
            raise InputError(f"{name}{reason}", where=where)
    return {name: one.model_dump(exclude_unset=True) for name, one in settings.items()}
