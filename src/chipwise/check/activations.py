"""Activations in a graph: GELU, SiLU and Mish, however they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from chipwise.check import elementwise

Activation = Literal["gelu", "gelu_tanh", "silu", "mish"]

_GRID = np.linspace(-8.0, 8.0, 321)
# Constants like 0.7071 in float16 are 1e-4 off; GELU and its approximation by tanh lie 5e-4 apart.
_SAME = 1.5e-4

_FUNCTIONS: dict[Activation, Callable[[elementwise.Float64], elementwise.Float64]] = {
    "gelu": elementwise.gelu,
    "gelu_tanh": elementwise.gelu_tanh,
    "silu": elementwise.silu,
    "mish": elementwise.mish,
}
_VALUES = {name: function(_GRID) for name, function in _FUNCTIONS.items()}

# What an activation ends with, written out or not.
_LAST = frozenset({"Mul", "Div", "Gelu", "Swish", "Mish", "QuickGelu", "FastGelu"})


@dataclass(frozen=True)
class Found:
    """An activation in a graph.

    Attributes:
        kind: Which.
        source: Its input.
        nodes: Its nodes in order, the last one gives its output.
    """

    kind: Activation
    source: ir.Value
    nodes: tuple[ir.Node, ...]


def find_activation(node: ir.Node) -> Found | None:
    """The activation that ends with a node, None if none does."""
    if node.op_type not in _LAST or not elementwise.is_elementwise(node):
        return None
    for source, nodes in elementwise.sources(node):
        values = elementwise.compute(nodes, source, _GRID)
        for kind, wanted in _VALUES.items():
            if np.max(np.abs(values - wanted)) < _SAME:
                return Found(kind, source, tuple(nodes))
    return None
