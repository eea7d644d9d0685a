"""Edits that the passes for ONNX Runtime's operators share: merged projections, and nodes that take others' place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from chipwise.errors import RewriteError

MICROSOFT = "com.microsoft"


def merge(graph: ir.Graph, outputs: Sequence[ir.Value], anchor: ir.Node, name: str, *, after: bool = False) -> ir.Value:
    """One MatMul (and bias) for several of the same input, their outputs side by side.

    Args:
        graph: The graph.
        outputs: The outputs of the projections, each a MatMul or a MatMul and an Add.
        anchor: The node the new ones are put in front of.
        name: Name of the new MatMul; its weight and bias are named after it.
        after: Whether to put them behind the anchor instead.

    Raises:
        RewriteError: A projection is no MatMul with a constant weight.
    """
    matmuls, biases = [], []
    for output in outputs:
        node = output.producer()
        if node is not None and node.op_type == "Add":
            biases.append(constant(node.inputs[1]))
            node = given(node.inputs[0]).producer()
        if node is None or node.op_type != "MatMul":
            raise RewriteError("a projection is no MatMul", where=name)
        matmuls.append(node)
    weights = [constant(node.inputs[1]) for node in matmuls]
    merged = ir.node("MatMul", [matmuls[0].inputs[0], _side_by_side(graph, weights, f"{name}.weight")], name=name)
    nodes = [merged]
    if biases:
        bias = _side_by_side(graph, biases, f"{name}.bias")
        nodes.append(ir.node("Add", [merged.outputs[0], bias], name=f"{name}.bias"))
    (graph.insert_after if after else graph.insert_before)(anchor, nodes)
    return nodes[-1].outputs[0]


def _side_by_side(graph: ir.Graph, tensors: Sequence[ir.TensorProtocol], name: str) -> ir.Value:
    """An initializer of several along the last axis, read when it is written."""
    *front, _ = tensors[0].shape.numpy()
    width = sum(tensor.shape.numpy()[-1] for tensor in tensors)

    def read() -> ir.TensorProtocol:
        # The weights are transposed views of [out, in]: joining them as rows copies each once.
        rows = np.concatenate([tensor.numpy().T for tensor in tensors], axis=0)
        return ir.tensor(rows.T, name=name)

    lazy = ir.LazyTensor(read, ir.DataType.FLOAT, ir.Shape([*front, width]), name=name)
    value = ir.Value(name=name, shape=lazy.shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=lazy)
    graph.register_initializer(value)
    return value


def hand_over(graph: ir.Graph, old: ir.Node, new: ir.Node) -> None:
    """Give an old node's outputs, names and shapes to a new one, and remove it."""
    for before, after in zip(old.outputs, new.outputs, strict=True):
        after.name, after.shape = before.name, before.shape
        if before.dtype is not None:
            after.dtype = before.dtype
        for index, output in enumerate(graph.outputs):
            if output is before:
                graph.outputs[index] = after
        before.replace_all_uses_with(after)
    graph.remove(old, safe=True)


def given(value: ir.Value | None) -> ir.Value:
    """The value, which ``build_decoder`` always gives.

    Raises:
        RewriteError: It is missing.
    """
    if value is None:
        raise RewriteError("an input that build_decoder always gives is missing")
    return value


def constant(value: ir.Value | None) -> ir.TensorProtocol:
    """The tensor of an initializer.

    Raises:
        RewriteError: The value is computed.
    """
    tensor = given(value).const_value
    if tensor is None:
        raise RewriteError("a weight is no initializer", where=given(value).name)
    return tensor
