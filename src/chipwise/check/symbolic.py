"""Symbolic dimensions: their names, and their sizes once the names have sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import onnx_ir as ir

Dim = int | ir.SymbolicDim

# What exporters write for a dimension that they know nothing about.
_NAMELESS = frozenset({"?", "-1", "", "None"})


def dim_symbols(dim: Dim) -> frozenset[str]:
    """The names a dimension depends on: ``{"past", "seq"}`` for ``past + seq``; empty for a size or an unknown."""
    if isinstance(dim, int) or dim.value is None or dim.value in _NAMELESS:
        return frozenset()
    try:
        return dim.free_symbols()
    except ValueError:  # a name that is no expression, e.g. "batch size"
        return frozenset({dim.value})


def is_size(dim: Dim) -> bool:
    """Whether a dimension is a number. A negative one, as some exporters write, is none."""
    return isinstance(dim, int) and dim >= 0


def dim_size(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension, None if it is not determined by ``sizes``."""
    if isinstance(dim, int):
        return dim if dim >= 0 else None
    if dim.value is None or dim.value in _NAMELESS:
        return None
    if dim.value in sizes:
        return sizes[dim.value]
    return _evaluated(dim.value, frozenset(sizes.items()))


@lru_cache(maxsize=4096)  # a graph repeats a few expressions thousands of times, and each costs milliseconds
def _evaluated(expression: str, sizes: frozenset[tuple[str, int]]) -> int | None:
    try:
        size = ir.SymbolicDim(expression).evaluate(dict(sizes))
    except ValueError:
        return None
    return size if isinstance(size, int) else None


def input_dim_size(value: ir.Value, axis: int, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension of a graph input, which ``sizes`` may also name ``input:axis``."""
    if value.shape is None:
        return None
    return sizes.get(f"{value.name}:{axis}", dim_size(value.shape[axis], sizes))


def static_shape(value: ir.Value | None, sizes: Mapping[str, int] | None = None) -> tuple[int, ...] | None:
    """The shape of a value if all of it is known, by itself or with ``sizes``, else None."""
    if value is None or value.shape is None:
        return None
    dims = [dim_size(dim, sizes or {}) for dim in value.shape]
    known = tuple(dim for dim in dims if dim is not None)
    return known if len(known) == len(dims) else None
