"""Symbolic dimensions: their names, and their sizes once the names have sizes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

Dim = int | ir.SymbolicDim


def dim_symbols(dim: Dim) -> frozenset[str]:
    """The names a dimension depends on: ``{"past", "seq"}`` for ``past + seq``; empty for a size or an unknown."""
    if isinstance(dim, int) or dim.value is None:
        return frozenset()
    try:
        return dim.free_symbols()
    except ValueError:  # a name that is no expression, e.g. "batch size"
        return frozenset({dim.value})


def dim_size(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension, None if it is not determined by ``sizes``."""
    if isinstance(dim, int):
        return dim
    if dim.value is None:
        return None
    if dim.value in sizes:
        return sizes[dim.value]
    try:
        size = dim.evaluate(sizes)
    except ValueError:
        return None
    return size if isinstance(size, int) else None


def input_dim_size(value: ir.Value, axis: int, sizes: Mapping[str, int]) -> int | None:
    """The size of a dimension of a graph input, which ``sizes`` may also name ``input:axis``."""
    if value.shape is None:
        return None
    return sizes.get(f"{value.name}:{axis}", dim_size(value.shape[axis], sizes))


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a value if all of it is known, else None."""
    if value is None or value.shape is None:
        return None
    dims = [dim for dim in value.shape if isinstance(dim, int)]
    return tuple(dims) if len(dims) == len(value.shape) else None
