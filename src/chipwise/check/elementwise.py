"""Elementwise regions: nodes that together compute one function of one value, known by the numbers they give."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.constants import constant_scalar

Float64 = npt.NDArray[np.float64]

# More nodes than the longest activation is written in (GELU by tanh with x * x * x).
_MAX_NODES = 16

_erf: Callable[[Float64], Float64] = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Float64) -> Float64:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def softplus(x: Float64) -> Float64:
    """log(1 + exp(x)), without overflow."""
    return np.asarray(np.logaddexp(0.0, x))


def gelu(x: Float64) -> Float64:
    """GELU: x times the normal distribution function, https://arxiv.org/abs/1606.08415."""
    return np.asarray(0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))))


def gelu_tanh(x: Float64) -> Float64:
    """GELU's approximation by tanh, from the same paper."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def silu(x: Float64) -> Float64:
    """SiLU: x * sigmoid(x)."""
    return x * sigmoid(x)


def mish(x: Float64) -> Float64:
    """Mish: x * tanh(softplus(x)), https://arxiv.org/abs/1908.08681."""
    return np.asarray(x * np.tanh(softplus(x)))


def _gelu_node(x: Float64, node: ir.Node) -> Float64:
    attribute = node.attributes.get("approximate")
    return gelu_tanh(x) if attribute is not None and attribute.as_string() == "tanh" else gelu(x)


def _alpha(node: ir.Node, default: float) -> float:
    attribute = node.attributes.get("alpha")
    return default if attribute is None else attribute.as_float()


_OPS: dict[tuple[str, str], Callable[..., Float64]] = {
    ("", "Add"): lambda a, b, node: a + b,
    ("", "Sub"): lambda a, b, node: a - b,
    ("", "Mul"): lambda a, b, node: a * b,
    ("", "Div"): lambda a, b, node: a / b,
    ("", "Pow"): lambda a, b, node: a**b,
    ("", "Sum"): lambda *ab: sum(ab[:-1]),
    ("", "Neg"): lambda a, node: -a,
    ("", "Exp"): lambda a, node: np.exp(a),
    ("", "Log"): lambda a, node: np.log(a),
    ("", "Sqrt"): lambda a, node: np.sqrt(a),
    ("", "Reciprocal"): lambda a, node: 1.0 / a,
    ("", "Erf"): lambda a, node: _erf(a),
    ("", "Tanh"): lambda a, node: np.tanh(a),
    ("", "Sigmoid"): lambda a, node: sigmoid(a),
    ("", "Softplus"): lambda a, node: softplus(a),
    ("", "Gelu"): _gelu_node,
    ("", "Mish"): lambda a, node: mish(a),
    ("", "Swish"): lambda a, node: a * sigmoid(_alpha(node, 1.0) * a),
    ("com.microsoft", "QuickGelu"): lambda a, node: a * sigmoid(_alpha(node, 1.702) * a),
    ("com.microsoft", "Gelu"): lambda a, node: gelu(a),
    ("com.microsoft", "FastGelu"): lambda a, node: gelu_tanh(a),
}


def is_elementwise(node: ir.Node) -> bool:
    """Whether this file can compute a node."""
    return (node.domain, node.op_type) in _OPS


def sources(sink: ir.Node) -> Iterator[tuple[ir.Value, list[ir.Node]]]:
    """Values that a node's output is a function of, alone, and the nodes between; nearest first.

    Nobody outside the nodes between may use what they compute, save the sink's output.
    """
    seen: list[ir.Value] = []
    queue = [value for value in sink.inputs if value is not None]
    while queue and len(seen) < 2 * _MAX_NODES:
        value = queue.pop(0)
        if value in seen or constant_scalar(value) is not None:
            continue
        seen.append(value)
        nodes = _between(value, sink)
        if nodes is not None:
            yield value, nodes
        producer = value.producer()
        if producer is not None and is_elementwise(producer):
            queue.extend(one for one in producer.inputs if one is not None)


def _between(source: ir.Value, sink: ir.Node) -> list[ir.Node] | None:
    """The nodes from a source to a sink if nothing else flows in or out, sink last; None otherwise."""
    found: list[ir.Node] = []
    stack = [sink]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        if not is_elementwise(node) or len(found) >= _MAX_NODES:
            return None
        found.append(node)
        for value in node.inputs:
            if value is None or value is source or constant_scalar(value) is not None:
                continue
            producer = value.producer()
            if producer is None or value.is_graph_output():
                return None
            stack.append(producer)
    inside = set(found)
    outputs = [value for node in found if node is not sink for value in node.outputs]
    if any(user not in inside for value in outputs for user, _ in value.uses()):
        return None
    return _ordered(sink, inside)


def _ordered(sink: ir.Node, inside: set[ir.Node]) -> list[ir.Node]:
    """The nodes of a region, each after those it reads."""
    done: list[ir.Node] = []
    stack = [(sink, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            done.append(node)
        elif node not in done:
            stack.append((node, True))
            stack += [(p, False) for p in node.predecessors() if p in inside and p not in done]
    return list(dict.fromkeys(done))


def compute(nodes: list[ir.Node], source: ir.Value, x: Float64) -> Float64:
    """The values of the last node's output where ``source`` has the values ``x``."""
    values: dict[ir.Value, Any] = {source: x}
    with np.errstate(all="ignore"):
        for node in nodes:
            arguments = [values[v] if v in values else constant_scalar(v) for v in node.inputs if v is not None]
            values[node.outputs[0]] = _OPS[node.domain, node.op_type](*arguments, node)
    return np.broadcast_to(np.asarray(values[nodes[-1].outputs[0]], dtype=np.float64), x.shape)
