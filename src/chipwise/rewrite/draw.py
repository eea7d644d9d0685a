"""Inputs drawn from what a model declares, for proofs when nobody gave real ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.symbolic import dim_symbols, input_dim_size
from chipwise.errors import GraphError, RewriteError
from chipwise.rewrite.pass_ import Feed

# Sizes for dimensions that are not given: a batch of one, and a length that no common size divides by accident.
_BATCH = 1
_LENGTH = 12

# Operators that hand an index on unchanged in value.
_INDEX_CARRIERS = frozenset({"Cast", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Flatten", "Slice"})

_INTEGERS = frozenset(
    {
        ir.DataType.INT64,
        ir.DataType.INT32,
        ir.DataType.INT16,
        ir.DataType.INT8,
        ir.DataType.UINT8,
    }
)


def draw_feeds(model: ir.Model, dims: Mapping[str, int] | None = None, *, seed: int = 0, n: int = 2) -> list[Feed]:
    """Draw ``n`` inputs for a model.

    Floats are standard normal; integers stay below the rows of the table they index (below 2 where they index
    none); a mask is ones with zeros in its last quarter; a one-dimensional length or past size is its maximum.

    Args:
        model: The model.
        dims: Sizes of symbolic dimensions by name; others are 1 (first axis) or 12.
        seed: Seed of the numbers.
        n: How many.

    Raises:
        GraphError: An input is of a type that cannot be drawn.
        RewriteError: An input's rank is unknown.
    """
    rng = np.random.default_rng(seed)
    inputs = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    sizes = dict(dims or {})  # a symbol that two inputs share gets one size
    return [{str(value.name): _draw(value, sizes, rng) for value in inputs} for _ in range(n)]


def _draw(value: ir.Value, dims: dict[str, int], rng: np.random.Generator) -> npt.NDArray[Any]:
    shape = _shape(value, dims)
    dtype = value.dtype
    if dtype is not None and "mask" in str(value.name).lower():
        return _mask(shape).astype(dtype.numpy())
    if dtype in _INTEGERS:
        return rng.integers(0, index_bound(value), size=shape).astype(dtype.numpy())
    if dtype == ir.DataType.BOOL:
        return rng.random(shape) < 0.5
    if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16):
        return rng.standard_normal(shape).astype(dtype.numpy())
    raise GraphError(
        f"no input of type {dtype.name if dtype else 'unknown'} can be drawn, and no chip takes one",
        where=str(value.name),
        remedy="export the model with inputs of numbers: texts become tokens, and tokens numbers, outside the graph",
    )


def _shape(value: ir.Value, dims: dict[str, int]) -> tuple[int, ...]:
    if value.shape is None:
        raise RewriteError("the input declares no shape", where=str(value.name), remedy="give real inputs")
    sizes = []
    for axis, dim in enumerate(value.shape):
        default = _BATCH if axis == 0 else _LENGTH
        if input_dim_size(value, axis, dims) is None:
            for symbol in dim_symbols(dim):
                dims.setdefault(symbol, default)
        size = input_dim_size(value, axis, dims)
        sizes.append(default if size is None else size)
    return tuple(sizes)


def _mask(shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    mask = np.ones(shape, dtype=np.int64)
    if shape and shape[-1] >= 4:
        mask[..., -(shape[-1] // 4) :] = 0
    return mask


def index_bound(value: ir.Value) -> int:
    """One more than the largest integer an input may hold: the rows of the smallest table it indexes, else 2."""
    bounds: list[int] = []
    seen: set[ir.Value] = set()
    queue = [value]
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        for node, index in current.uses():
            if node.op_type in ("Gather", "GatherElements", "GatherND") and index == 1:
                table = node.inputs[0]
                axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
                rows = None if table is None or table.shape is None else table.shape[axis]
                if isinstance(rows, int):
                    bounds.append(rows)
            elif node.op_type in _INDEX_CARRIERS and index == 0:
                queue.extend(node.outputs)
    return max(1, min(bounds)) if bounds else 2
