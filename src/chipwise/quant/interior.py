"""Interior values: what a chip keeps to itself inside one operator of its own, and never stores in 8 bits."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from chipwise.check.activations import find_activation
from chipwise.check.constants import constant_tensor

_PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose")


def interior_values(graph: ir.Graph) -> set[ir.Value]:
    """The values that no quantized toolchain stores, because it fuses the operators around them.

    1. Between the operators of a norm written out (difference, square, mean, root, quotient, weight): exNorm and the
       like.
    2. Between those of an activation written out (SiLU, GELU, Mish): a table or ConvExSwish.
    3. Between a product and the bias added to it: the sum of int32 products starts at the bias.
    4. Between a product and the ReLU or Clip behind it: ConvRelu.
    """
    found: set[ir.Value] = set()
    for node in graph:
        if node.domain:
            continue
        if node.op_type == "Sqrt":
            found.update(_of_norm(node))
        elif node.op_type == "Add":
            found.update(_before_bias(node))
        elif node.op_type in ("Relu", "Clip"):
            found.update(_before_clip(node))
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
    """From ``(x - mean(x)) / sqrt(mean(square) + epsilon) * weight + bias`` all but x and the result.

    The square is a Pow or a Mul; difference, weight and bias may be missing.
    """
    chain = [root]
    for wanted in (("Add",), ("ReduceMean",), ("Pow", "Mul")):
        producer = next((p for v in chain[-1].inputs if v and (p := v.producer()) and p.op_type in wanted), None)
        if producer is None:
            return
        chain.append(producer)
    quotients = [node for node, index in root.outputs[0].uses() if node.op_type == "Div" and index == 1]
    if not quotients:
        return
    squared = chain[-1].inputs[0]
    difference = None if squared is None else squared.producer()
    if difference is not None and difference.op_type == "Sub" and difference.inputs[1] is not None:
        mean = difference.inputs[1].producer()
        if mean is not None and mean.op_type == "ReduceMean":
            chain += [difference, mean]
    for node in chain:
        yield from node.outputs
    for quotient in quotients:
        yield from _before_constants(quotient)


def _before_constants(node: ir.Node) -> Iterator[ir.Value]:
    """What goes on into a product with a weight, and from there into the sum with a bias."""
    for wanted in ("Mul", "Add"):
        users = [user for user, _ in node.outputs[0].uses()]
        if len(users) != 1 or users[0].op_type != wanted or not _has_constant(users[0]):
            return
        yield node.outputs[0]
        node = users[0]


def _has_constant(node: ir.Node) -> bool:
    return any(value is not None and constant_tensor(value) is not None for value in node.inputs)


def _before_clip(node: ir.Node) -> Iterator[ir.Value]:
    value = node.inputs[0]
    producer = None if value is None else value.producer()
    if value is not None and producer is not None and producer.op_type in (*_PRODUCTS, "Add"):
        is_sum = producer.op_type == "Add"
        if len(list(value.uses())) == 1 and (not is_sum or any(True for _ in _before_bias(producer))):
            yield value


def _before_bias(add: ir.Node) -> Iterator[ir.Value]:
    for value, other in (add.inputs, add.inputs[::-1]):
        producer = None if value is None else value.producer()
        bias = constant_tensor(other)
        if value is None or producer is None or bias is None or producer.op_type not in _PRODUCTS:
            continue
        if len(bias.shape) == 1 and constant_tensor(producer.inputs[1]) is not None and len(list(value.uses())) == 1:
            yield value
