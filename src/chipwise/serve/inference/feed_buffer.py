"""FeedBuffer: the arrays that one run is fed, used again by the next but one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class FeedBuffer:
    """One array an input, kept as long as its shape and type stay the same."""

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array to be filled; what it holds is not defined."""
        kept = self._arrays.get(name)
        if kept is None or kept.shape != tuple(shape) or kept.dtype != dtype:
            kept = self._arrays[name] = np.empty(tuple(shape), dtype)
        return kept
