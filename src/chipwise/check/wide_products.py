"""Wide products: matrix products of more columns than an accelerator hands out row by row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.check.symbolic import static_shape

# These leave every value where it is, so a compiler moves the change of layout behind them.
_KEEPING = frozenset(
    {
        "Add", "Cast", "Clip", "Div", "Dropout", "HardSwish", "Identity", "LeakyRelu", "Mul", "Neg", "Relu", "Reshape",
        "Sigmoid", "Squeeze", "Sub", "Tanh", "Unsqueeze",
    }
)  # fmt: skip
_DEPTH = 8


@dataclass(frozen=True)
class WideProduct:
    """A MatMul or Gemm with constant weights whose rows leave the graph.

    Attributes:
        node: The product.
        rows: Rows of the result, all but the last axis.
        columns: Columns of the result.
    """

    node: ir.Node
    rows: int
    columns: int


def wide_products(
    nodes: Iterable[ir.Node], columns_max: int, sizes: Mapping[str, int] | None = None
) -> Iterator[WideProduct]:
    """Products of more than one row and more than ``columns_max`` columns that lead to a graph output.

    An accelerator that keeps channels outermost turns such a result round when it hands it out. Products inside the
    graph keep their layout, and a single row needs no turning.

    Args:
        nodes: The nodes to look at.
        columns_max: The most columns that can be turned round.
        sizes: Sizes of symbolic dimensions.
    """
    for node in nodes:
        if node.domain or node.op_type not in ("MatMul", "Gemm") or len(node.inputs) < 2:
            continue
        shape = static_shape(node.outputs[0], sizes)
        if not shape or shape[-1] <= columns_max or constant_tensor(node.inputs[1]) is None:
            continue
        rows = math.prod(shape[:-1])
        if rows > 1 and _leaves(node.outputs[0], _DEPTH):
            yield WideProduct(node, rows, shape[-1])


def _leaves(value: ir.Value, depth: int) -> bool:
    """Whether a value reaches a graph output in the layout it has."""
    if value.is_graph_output():
        return True
    return depth > 0 and any(
        _leaves(user.outputs[0], depth - 1)
        for user in value.consumers()
        if not user.domain and user.op_type in _KEEPING
    )
