"""RknnShape: one of several shapes that a file was compiled for, which the file itself does not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from chipwise.errors import EngineError
from chipwise.model.rknn_file import RknnFile


@dataclass(frozen=True)
class RknnShape:
    """Shapes that go together.

    Attributes:
        inputs: The shape of each input.
        outputs: The shape of each output.
    """

    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]


def read_shapes(given: object, file: RknnFile) -> tuple[RknnShape, ...]:
    """The engine's option ``shapes``: a list of ``{"inputs": {name: sizes}, "outputs": {name: sizes}}``.

    Raises:
        EngineError: It is of another form, or does not name the file's inputs and outputs.
    """
    if given is None:
        return ()
    if not isinstance(given, list) or not given:
        raise _malformed()
    return tuple(_shape(one, file) for one in given)


def chosen(shapes: Sequence[RknnShape], feed: Mapping[str, npt.NDArray[Any]], where: str) -> RknnShape | None:
    """The shape that a feed is of; None where none are listed.

    Raises:
        EngineError: The feed is of none of them.
    """
    if not shapes:
        return None
    found = {name: array.shape for name, array in feed.items()}
    shape = next((one for one in shapes if one.inputs == found), None)
    if shape is None:
        listed = "; ".join(_said(one.inputs) for one in shapes)
        raise EngineError(f"the inputs are {_said(found)}, the model takes {listed}", where=where)
    return shape


def _said(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())


def _shape(given: object, file: RknnFile) -> RknnShape:
    if not isinstance(given, dict) or set(given) != {"inputs", "outputs"}:
        raise _malformed()
    names = ([tensor.name for tensor in file.inputs], [tensor.name for tensor in file.outputs])
    return RknnShape(_sizes(given["inputs"], names[0]), _sizes(given["outputs"], names[1]))


def _sizes(given: object, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    if not isinstance(given, dict) or set(given) != set(names):
        raise EngineError(f"the option shapes does not name {', '.join(names)}", where="rknn")
    for sizes in given.values():
        if not isinstance(sizes, list) or not all(type(size) is int and size > 0 for size in sizes):
            raise _malformed()
    return {name: tuple(given[name]) for name in names}


def _malformed() -> EngineError:
    return EngineError("the option shapes is no list of shapes of inputs and outputs", where="rknn")
