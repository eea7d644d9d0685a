"""Named arrays in shared memory, one after the other, and where each lies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.isolated.shared import SharedMemory, aligned
from chipwise.errors import EngineError

Places = Sequence[Mapping[str, Any]]
"""Each array's ``name``, ``dtype``, ``shape`` and ``offset`` in bytes, as JSON has them."""


def write_arrays(memory: SharedMemory, arrays: Mapping[str, npt.NDArray[Any]], start: int = 0) -> tuple[Places, int]:
    """Lay arrays into memory, which grows to hold them.

    Args:
        memory: The memory.
        arrays: Arrays of numbers.
        start: Where the first may begin, in bytes.

    Returns:
        Where they lie, and where the next may begin.

    Raises:
        EngineError: One holds what is no number, or there is not as much memory.
    """
    places, end = [], aligned(start)
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise EngineError(f"{name!r} holds what is no number", where="isolation")
        places.append({"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "offset": end})
        end = aligned(end + array.nbytes)
    # At once, so that it grows once.
    memory.array(np.uint8, (end,))
    for place, array in zip(places, arrays.values(), strict=True):
        _view(memory, place)[...] = array
    return places, end


def read_arrays(memory: SharedMemory, places: Places) -> dict[str, npt.NDArray[Any]]:
    """Views of the arrays that lie there."""
    return {str(place["name"]): _view(memory, place) for place in places}


def _view(memory: SharedMemory, place: Mapping[str, Any]) -> npt.NDArray[Any]:
    dtype, shape = np.dtype(place["dtype"]), tuple(place["shape"])
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    view: npt.NDArray[Any] = memory.array(np.uint8, (size,), place["offset"]).view(dtype)
    return view.reshape(shape)
