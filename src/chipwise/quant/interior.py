"""Interior values: what a chip keeps to itself inside one operator of its own, and never stores in 8 bits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import onnx_ir as ir

from chipwise.check.activations import Activation, find_activation
from chipwise.check.constants import constant_tensor

_PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
_OPERATORS: Mapping[Activation, str] = {"gelu": "Gelu", "gelu_tanh": "Gelu", "silu": "Swish", "mish": "Mish"}


def interior_values(graph: ir.Graph, fused: Collection[str] = ()) -> set[ir.Value]:
    """The values that a quantized toolchain does not store, because it fuses the operators around them.

    1. Between the operators of a norm written out (difference, square, mean, root, quotient, weight): exNorm and the
       like.
    2. Between those of an activation written out (SiLU, GELU, Mish): a table or ConvExSwish.
    3. Between a product and the bias added to it: the sum of int32 products starts at the bias.
    4. Between a product and the ReLU or Clip behind it: ConvRelu.
    5. Between a product of constant weights and what else the chip's compiler puts behind it: an activation, written
       out or not (ConvExGelu, ConvExSwish, ConvHardSigmoid), or the sum or product with another value (ConvAdd,
       ConvMul), of two such products with the later one; and between that sum and a ReLU (AddRelu).

    Args:
        graph: The graph, its functions inlined.
        fused: The operators of the fifth case, e.g. ``Gelu`` or ``Add``; none for what all toolchains do.
    """
    found: set[ir.Value] = set()
    order = {node: index for index, node in enumerate(graph)}
    for node in graph:
        if node.domain:
            continue
        if node.op_type in fused:
            found.update(_before_tail(node, order))
        if node.op_type == "Relu" and "Add" in fused:
            found.update(_before_relu_of_sum(node))
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
                inside = all(user in activation.nodes for user, _ in activation.source.uses())
                if _OPERATORS[activation.kind] in fused and inside and _is_product(activation.source):
                    found.add(activation.source)
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


def _before_tail(node: ir.Node, order: Mapping[ir.Node, int]) -> Iterator[ir.Value]:
    """The product that a node is fused to; of several the one computed last, for the others must be there by then."""
    if any(constant_tensor(value) is not None for value in node.inputs if node.op_type in ("Add", "Mul")):
        return
    products = [value for value in node.inputs if value is not None and _is_product(value) and _has_one_use(value)]
    if products:
        yield max(products, key=lambda value: order.get(value.producer(), -1))  # type: ignore[arg-type]


def _before_relu_of_sum(relu: ir.Node) -> Iterator[ir.Value]:
    value = relu.inputs[0]
    producer = None if value is None else value.producer()
    if value is not None and producer is not None and producer.op_type == "Add" and _has_one_use(value):
        yield value


def _is_product(value: ir.Value) -> bool:
    """Whether a value is a product of constant weights, with or without a bias."""
    node = value.producer()
    if node is None or node.domain:
        return False
    if node.op_type == "Add":
        return any(True for _ in _before_bias(node))
    return node.op_type in _PRODUCTS and constant_tensor(node.inputs[1]) is not None


def _has_one_use(value: ir.Value) -> bool:
    return len(list(value.uses())) == 1


def _before_bias(add: ir.Node) -> Iterator[ir.Value]:
    for value, other in (add.inputs, add.inputs[::-1]):
        producer = None if value is None else value.producer()
        bias = constant_tensor(other)
        if value is None or producer is None or bias is None or producer.op_type not in _PRODUCTS:
            continue
        if _adds_a_channel(bias, producer) and constant_tensor(producer.inputs[1]) is not None and _has_one_use(value):
            yield value


def _adds_a_channel(bias: ir.TensorProtocol, producer: ir.Node) -> bool:
    """Whether a constant adds a number to each output channel: ``[c]``, or ``[1, c, 1, 1]`` behind a convolution."""
    sizes = [int(size) for size in bias.shape.numpy()]
    if producer.op_type in ("MatMul", "Gemm"):
        return len(sizes) == 1
    weight = constant_tensor(producer.inputs[1])
    spatial = [1] * (0 if weight is None else len(weight.shape) - 2)
    return len(sizes) > len(spatial) and sizes[-len(spatial) :] == spatial and set(sizes[: -len(spatial) - 1]) <= {1}
