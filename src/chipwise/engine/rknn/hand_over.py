"""Handing arrays over to the runtime: in the type they come in where it takes that, and never twice converted.

Without pass-through the runtime takes numbers at their value and makes the model's own type of them. It then takes
uint8, float16 and float32, and int64 for inputs that are int64. int8 and int16 are not used so: whether they mean
values or steps of the scale is not said. With pass-through it takes the model's own type, and then in the model's own
layout, which the file does not tell for four dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.rknn.shapes import RknnShape
from chipwise.errors import EngineError
from chipwise.model.rknn_file import RknnFile, RknnTensor

_AS_GIVEN = frozenset({"uint8", "float16", "float32"})
_INTEGERS = frozenset({"int32", "int64"})
_LAYOUT_RANK = 4
_INT8 = np.iinfo(np.int8)


def passes_through(tensor: RknnTensor) -> bool:
    """Whether the file tells all that is needed to hand an input over in the model's own type."""
    known = tensor.scale is not None and tensor.scale > 0 and tensor.zero_point is not None
    return tensor.dtype == "int8" and known and len(tensor.shape) != _LAYOUT_RANK


def quantized(tensor: RknnTensor, array: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    """Values as int8 steps of an input's scale, rounded to the nearest and cut at the ends."""
    steps = np.rint(array.astype(np.float32, copy=False) / np.float32(tensor.scale or 1)) + (tensor.zero_point or 0)
    cut: npt.NDArray[np.int8] = np.clip(steps, _INT8.min, _INT8.max).astype(np.int8)
    return cut


def converted(tensor: RknnTensor, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array in a type that the runtime takes, laid out without gaps; unchanged where it is in one."""
    if tensor.dtype in _INTEGERS:
        return np.ascontiguousarray(array, np.dtype(tensor.dtype))
    # Of a file whose format is newer than what is known here, the types are not.
    as_given = _AS_GIVEN | _INTEGERS if tensor.dtype.startswith("unknown") else _AS_GIVEN
    return np.ascontiguousarray(array, array.dtype if array.dtype.name in as_given else np.float32)


def in_order(
    file: RknnFile, feed: dict[str, npt.NDArray[Any]], where: str, *, listed: bool = False
) -> list[npt.NDArray[Any]]:
    """The arrays of a feed in the model's order.

    Args:
        file: The model.
        feed: Arrays by input.
        where: The model's path, for messages.
        listed: Whether the model is for several shapes, which are looked at elsewhere.

    Raises:
        EngineError: One is missing, unknown, of another shape, or holds no numbers.
    """
    names = [tensor.name for tensor in file.inputs]
    missing, unknown = sorted(set(names) - set(feed)), sorted(set(feed) - set(names))
    if missing or unknown:
        raise EngineError(
            f"the graph has no input {unknown[0]!r}" if unknown else f"the input {missing[0]!r} is missing",
            where="feed",
            remedy=f"give the inputs {', '.join(names)}",
        )
    for tensor in file.inputs:
        array = feed[tensor.name]
        if array.dtype.kind not in "biuf":
            raise EngineError(f"the input {tensor.name} holds {array.dtype}, no numbers", where="feed")
        # Of a model for several shapes the file describes one.
        if not listed and file.graphs in (None, 1) and array.shape != tensor.shape:
            raise EngineError(
                f"the input {tensor.name} is {list(array.shape)}, the model takes {list(tensor.shape)}", where=where
            )
    return [feed[name] for name in names]


def shaped(
    file: RknnFile, outputs: list[npt.NDArray[Any]], where: str, chosen: RknnShape | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The runtime's outputs by name, each of the shape the model was given to the toolkit with.

    Args:
        file: The model.
        outputs: What the runtime returned.
        where: The model's path, for messages.
        chosen: The shape that was run, of a model for several.

    Raises:
        EngineError: One has another number of values.
    """
    found = {}
    for tensor, array in zip(file.outputs, outputs, strict=True):
        wanted = chosen.outputs[tensor.name] if chosen else tensor.shape if file.graphs in (None, 1) else array.shape
        if array.shape != wanted:
            if array.size != int(np.prod(wanted)):
                raise EngineError(
                    f"the runtime returned {list(array.shape)} for {tensor.name}, which is {list(wanted)}",
                    where=where,
                )
            array = array.reshape(wanted)
        found[tensor.name] = array
    return found
