"""Split wide MatMul: an output layer is computed in pieces that the accelerator can hand out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.check.infer import infer_types
from chipwise.check.wide_products import WideProduct, wide_products
from chipwise.rewrite.edit import Patch, all_nodes, attribute_int, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance


@dataclass(frozen=True)
class SplitWideMatMul:
    """Compute a wide product's columns in pieces and concatenate them.

    rknn-toolkit2 2.5.0 for rk3588 hands the change of layout behind a product of more than 8192 columns to the CPU
    ("channel is too large, may produce thousands of regtask, fallback to cpu!"). Behind a Concat of pieces of at most
    8192 columns it keeps it on the NPU: up to 49152 columns in float16, up to 16384 in 8 bits (48 rows, measured).

    1. MatMul and Gemm with constant weights and more than one row whose result leaves the graph.
    2. The constant bias of a Gemm, and one that is added behind the product, are split with it.
    3. Products inside the graph, those of one row, those without known sizes and those with a computed bias stay.

    Attributes:
        columns_max: The most columns of a piece.
    """

    columns_max: int
    name: str = "split_wide_matmul"
    requires: tuple[str, ...] = ("fix_shapes", "constant_folding")
    optional: bool = True
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Split each wide product."""
        notes = []
        split = [wide for wide in wide_products(all_nodes(model), self.columns_max) if _bias_is_constant(wide.node)]
        for wide in split:
            pieces = self._split(wide)
            notes.append(f"{wide.node.name or wide.node.op_type}: {wide.columns} columns in {pieces} pieces")
        if split:
            remove_unused(model)
            infer_types(model)
        return PassResult(model, bool(split), tuple(notes))

    def _split(self, wide: WideProduct) -> int:
        """Put pieces of equal width, as far as that goes, in the product's place; returns how many."""
        n = -(-wide.columns // self.columns_max)
        step = -(-wide.columns // n)
        added = _added_bias(wide)
        last = wide.node if added is None else added[0]
        patch = Patch(last)
        parts = []
        for start in range(0, wide.columns, step):
            columns = slice(start, min(start + step, wide.columns))
            part = _product(patch, wide.node, columns)
            if added is not None:
                part = patch.op("Add", [part, _columns(patch, added[1], columns, axis=-1)])
            parts.append(part)
        patch.replace(last.outputs[0], patch.op("Concat", parts, {"axis": -1}, like=last.outputs[0]))
        return len(parts)


def _added_bias(wide: WideProduct) -> tuple[ir.Node, ir.Value] | None:
    """The Add of a constant of as many columns that is the product's only use, and that constant."""
    value = wide.node.outputs[0]
    users = list(value.uses())
    if value.is_graph_output() or len(users) != 1:
        return None
    node = users[0].node
    if node.op_type != "Add" or node.domain or node.graph is not wide.node.graph:
        return None
    bias = node.inputs[1 - users[0].idx]
    tensor = constant_tensor(bias)
    if bias is None or tensor is None or not tensor.shape.rank() or tensor.shape[-1] != wide.columns:
        return None
    return node, bias


def _bias_is_constant(node: ir.Node) -> bool:
    return len(node.inputs) < 3 or node.inputs[2] is None or constant_tensor(node.inputs[2]) is not None


def _product(patch: Patch, node: ir.Node, columns: slice) -> ir.Value:
    inputs = list(node.inputs)
    transposed = node.op_type == "Gemm" and attribute_int(node, "transB", 0) == 1
    inputs[1] = _columns(patch, inputs[1], columns, axis=-2 if transposed else -1)
    bias = constant_tensor(inputs[2]) if len(inputs) > 2 else None
    if bias is not None and bias.shape.rank() and bias.shape[-1] != 1:
        inputs[2] = _columns(patch, inputs[2], columns, axis=-1)
    return patch.op(node.op_type, inputs, dict(node.attributes))


def _columns(patch: Patch, value: ir.Value | None, columns: slice, *, axis: int) -> ir.Value:
    """Some columns of a constant as a constant of its own."""
    tensor = constant_tensor(value)
    if value is None or tensor is None:
        raise ValueError("the weight is no constant")
    array = np.asarray(tensor.numpy())
    index = [slice(None)] * array.ndim
    index[axis] = columns
    # A piece is known by the name of the whole: what stays in float16 is named so.
    return patch.constant(array[tuple(index)], hint=str(value.name))
