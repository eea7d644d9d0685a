"""Interior values: what a chip keeps to itself inside one operator of its own, and never stores in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.activations import find_activation
from chipwise.check.constants import constant_tensor


def interior_values(graph: ir.Graph) -> set[ir.Value]:
    """The values that no quantized toolchain stores, because it fuses the operators around them.

    1. Between the operators of a norm written out (square, mean, root, quotient): exNorm and the like.
    2. Between those of an activation written out (SiLU, GELU, Mish): a table or ConvExSwish.
    3. Between a product and the bias added to it: the sum of int32 products starts at the bias.
    """
    found: set[ir.Value] = set()
    for node in graph:
        if node.domain:
            continue
        if node.op_type == "Sqrt":
            found.update(_of_norm(node))
        elif node.op_type == "Add":
            found.update(_before_bias(node))
        else:
            activation = find_activation(node)
            if activation is not None:
                found.update(value for inner in activation.nodes[:-1] for value in inner.outputs)
    return {value for value in found if not value.is_graph_output()}


def norm_weights(graph: ir.Graph, interior: set[ir.Value]) -> set[ir.Value]:
    """Constants that operators multiply or add to an interior value: weights of norms and biases of products."""
    return {
        other
        for value in interior
        for node, _ in value.uses()
        if node.op_type in ("Add", "Mul")
        for other in node.inputs
        if other is not None and constant_tensor(other) is not None
    }


def _of_norm(root: ir.Node) -> Iterator[ir.Value]:
    """From ``x / sqrt(mean(x * x) + epsilon)``, with the square as Pow or Mul, all but x and the quotient times w."""
    chain = [root]
    for wanted in (("Add",), ("ReduceMean",), ("Pow", "Mul")):
        producer = next((p for v in chain[-1].inputs if v and (p := v.producer()) and p.op_type in wanted), None)
        if producer is None:
            return
        chain.append(producer)
    quotients = [node for node, index in root.outputs[0].uses() if node.op_type == "Div" and index == 1]
    if not quotients:
        return
    for node in chain:
        yield from node.outputs
    for quotient in quotients:
        users = [node for node, _ in quotient.outputs[0].uses()]
        # Without a weight behind it the quotient is what the norm gives.
        if users and all(node.op_type == "Mul" for node in users):
            yield quotient.outputs[0]


def _before_bias(add: ir.Node) -> Iterator[ir.Value]:
    for value, other in (add.inputs, add.inputs[::-1]):
        producer = None if value is None else value.producer()
        bias = constant_tensor(other)
        if value is None or producer is None or bias is None or producer.op_type not in ("MatMul", "Gemm", "Conv"):
            continue
        if len(bias.shape) == 1 and constant_tensor(producer.inputs[1]) is not None and len(list(value.uses())) == 1:
            yield value
