"""Rules about control flow and shapes that depend on data."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.check_input import CheckInput, label
from chipwise.check.constants import constant_tensor
from chipwise.check.rule import Hit, rule

_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
# The shape of what these give depends on the values they are given.
_DATA_SHAPED = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression", "StringSplit"})
# These have a shape that depends on a value, which may be computed from shapes alone.
_SHAPED_BY_INPUT = {"Range": (0, 1, 2), "ConstantOfShape": (0,), "Expand": (1,), "Tile": (1,), "Reshape": (1,)}


@rule
def control_flow(given: CheckInput) -> Iterator[Hit]:
    """The graph branches, loops or sizes tensors by data.

    Why: The toolchain compiles one fixed list of steps; rknn-toolkit2 refuses a dynamic graph.

    Limit: `control_flow` of the target, from its toolchain.

    Remedy: Export the model with fixed shapes and without this branch, or run this part on the CPU outside the graph.
    """
    allowed = given.limits.control_flow
    if given.graph is None or allowed is None or allowed.value:
        return
    left = set(given.nodes)
    for node in given.nodes:
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "If" and _settled(node, left):
            yield Hit("info", label(node), "If with a constant condition", "no If", "the build folds it away")
        elif node.op_type in _FLOW:
            yield Hit("error", label(node), f"{node.op_type} on data", "no control flow")
        elif node.op_type in _DATA_SHAPED:
            yield Hit("error", label(node), f"{node.op_type}: a size known only while it runs", "fixed sizes")
        elif any(not _known(node, index, left) for index in _SHAPED_BY_INPUT.get(node.op_type, ())):
            yield Hit("error", label(node), f"{node.op_type} sized by computed data", "fixed sizes")


def _known(node: ir.Node, index: int, left: set[ir.Node]) -> bool:
    """Whether an input is constant or folds away."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or constant_tensor(value) is not None:
        return True
    producer = value.producer()
    return producer is not None and producer not in left


def _settled(node: ir.Node, left: set[ir.Node]) -> bool:
    return _known(node, 0, left)
