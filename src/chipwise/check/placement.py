"""Placement: which nodes run where, how often the data changes sides, and how much of it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import onnx_ir as ir

from chipwise.check.activations import find_activation
from chipwise.check.check_input import CheckInput
from chipwise.check.symbolic import static_shape
from chipwise.target.placement import Place

_OPERATOR = {"gelu": "Gelu", "gelu_tanh": "Gelu", "silu": "Swish", "mish": "Mish"}
# Moving data without computing: these go wherever their neighbours run.
_FREE = frozenset({"Identity", "Dropout", "Constant", "Flatten", "Squeeze", "Unsqueeze"})


@dataclass
class PlacementCount:
    """What was counted.

    Attributes:
        by_place: Nodes by place.
        ops: Operators by place, with how many nodes of each.
        unknown: Operators no source places, with how many nodes of each.
        examples: A node of every operator.
        segments: Stretches of nodes on the accelerator.
        crossing_bytes: Bytes of values made on one side and read on the other, once a value.
        crossings: How many such values.
        unsized: Those of them whose size is not known.
    """

    by_place: Counter[Place] = field(default_factory=Counter)
    ops: dict[Place, Counter[str]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    examples: dict[str, ir.Node] = field(default_factory=dict)
    segments: int = 0
    crossing_bytes: int = 0
    crossings: int = 0
    unsized: int = 0


def count_placement(given: CheckInput) -> PlacementCount:
    """Place every node that is left when constants are folded.

    A GELU, SiLU or Mish that is written out counts as its operator where the accelerator has that. What no source
    places is taken to run on the accelerator, and listed.
    """
    count = PlacementCount()
    fused = _fused(given)
    functions = set(given.graph.functions) if given.graph is not None else set()
    sides: dict[ir.Node, bool] = {}
    for node in given.nodes:
        if node.op_type in _FREE or node.op_identifier() in functions:
            continue
        name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        placement = given.limits.place(name)
        place: Place = "npu" if placement is None or node in fused else placement.place
        if placement is None and node not in fused:
            count.unknown[name] += 1
        count.by_place[place] += 1
        count.ops.setdefault(place, Counter())[name] += 1
        count.examples.setdefault(name, node)
        sides[node] = place == "npu"
    _count_crossings(given, count, sides)
    return count


def _fused(given: CheckInput) -> set[ir.Node]:
    """Nodes of activations whose operator the accelerator has: the toolchain fuses them."""
    fused: set[ir.Node] = set()
    for node in given.nodes:
        found = find_activation(node)
        if found is None:
            continue
        placement = given.limits.place(_OPERATOR[found.kind])
        if placement is not None and placement.place == "npu":
            fused |= set(found.nodes)
    return fused


def _count_crossings(given: CheckInput, count: PlacementCount, sides: dict[ir.Node, bool]) -> None:
    previous = False
    crossed: set[ir.Value] = set()
    for node in given.nodes:
        if node not in sides:
            continue
        here = sides[node]
        count.segments += here and not previous
        previous = here
        for value in node.inputs:
            producer = _maker(value, sides)
            if value is None or value in crossed or producer is None or sides[producer] == here:
                continue
            crossed.add(value)
            count.crossings += 1
            shape = static_shape(value, given.dims)
            if shape is None or value.dtype is None:
                count.unsized += 1
            else:
                count.crossing_bytes += math.prod(shape) * max(1, value.dtype.bitwidth // 8)


def _maker(value: ir.Value | None, sides: dict[ir.Node, bool]) -> ir.Node | None:
    """The placed node that a value comes from, through nodes that only pass it on."""
    for _ in range(8):
        node = None if value is None else value.producer()
        if node is None or node in sides:
            return node
        if node.op_type not in _FREE or not node.inputs:
            return None
        value = node.inputs[0]
    return None
