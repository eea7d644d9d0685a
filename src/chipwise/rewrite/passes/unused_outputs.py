"""Unused outputs: recurrent cells whose last states are read in a way that the toolchain does not survive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.rewrite.edit import Patch, all_nodes, attribute_int
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance


@dataclass(frozen=True)
class UnusedOutputs:
    """Write recurrent cells whose outputs are not all used in a form that the target's toolchain survives.

    rknn-toolkit2 2.5.0 crashes where some are left unused (each was tried: what is not listed here builds).

    1. GRU and RNN whose last state is read and whose steps are not: the state becomes the last of the steps.
    2. LSTM whose last cell is read and whose last state is not: the cell is cut out of both.
    3. Cells that keep the batch first, or have sequences of several lengths: 1 leaves them.
    """

    name: str = "unused_outputs"
    requires: tuple[str, ...] = ("constant_folding",)
    optional: bool = False
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Rewrite such cells."""
        states, cells = 0, 0
        for node in all_nodes(model):
            if node.domain not in ("", "ai.onnx"):
                continue
            states += _state_from_steps(node)
            cells += _cell_beside_state(node)
        if states or cells:
            infer_types(model)
        said = ((states, "last states are read from the steps"), (cells, "last cells are cut out of state and cell"))
        notes = tuple(f"{count} {what}" for count, what in said if count)
        return PassResult(model, bool(notes), notes)


def _state_from_steps(node: ir.Node) -> int:
    if node.op_type not in ("GRU", "RNN") or len(node.outputs) < 2 or attribute_int(node, "layout", 0):
        return 0
    steps, state = node.outputs[:2]
    lengths = node.inputs[4] if len(node.inputs) > 4 else None
    if _used(steps) or not _used(state) or lengths is not None:
        return 0
    direction = node.attributes["direction"].as_string() if "direction" in node.attributes else "forward"
    patch = Patch.behind(node)
    if direction == "bidirectional":
        parts = [_step(patch, steps, which, first=which == 1) for which in (0, 1)]
        made = patch.op("Concat", parts, {"axis": 0})
    else:
        made = _step(patch, steps, 0, first=direction == "reverse")
    patch.replace(state, made)
    return 1


def _step(patch: Patch, steps: ir.Value, which: int, *, first: bool) -> ir.Value:
    """The first or last of the steps ``[steps, directions, batch, size]`` of one direction: ``[1, batch, size]``."""

    def numbers(*values: int) -> ir.Value:
        return patch.constant(np.array(values, np.int64))

    ends = (0, 1) if first else (-1, np.iinfo(np.int64).max)
    cut = patch.op("Slice", [steps, numbers(ends[0], which), numbers(ends[1], which + 1), numbers(0, 1)])
    return patch.op("Squeeze", [cut, numbers(0)])


def _cell_beside_state(node: ir.Node) -> int:
    if node.op_type != "LSTM" or len(node.outputs) < 3:
        return 0
    state, cell = node.outputs[1:3]
    if _used(state) or not _used(cell):
        return 0
    axis = 1 if attribute_int(node, "layout", 0) else 0
    both = 2 if "direction" in node.attributes and node.attributes["direction"].as_string() == "bidirectional" else 1
    patch = Patch.behind(node)
    joined = patch.op("Concat", [state, cell], {"axis": axis})
    ends = [patch.constant(np.array([number], np.int64)) for number in (both, 2 * both, axis)]
    made = patch.op("Slice", [joined, *ends])
    _replace_but(patch, cell, made, joined)
    return 1


def _replace_but(patch: Patch, old: ir.Value, new: ir.Value, kept: ir.Value) -> None:
    """Replace a value everywhere but in the node that makes ``kept``."""
    patch.replace(old, new)
    reader = kept.producer()
    if reader is not None:
        reader.replace_input_with(1, old)


def _used(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
