"""ProductGroup: matrix products that read one activation, and so share a precision on a chip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

_PRODUCTS = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True)
class ProductGroup:
    """Products with constant weights that read the same value.

    Attributes:
        value: Name of the value they read.
        weights: Names of their weights.
        outputs: Names of what they compute.
        weight_count: Numbers in their weights together.
    """

    value: str
    weights: tuple[str, ...]
    outputs: tuple[str, ...]
    weight_count: int


def product_groups(model: ir.Model) -> list[ProductGroup]:
    """The groups of a graph, in its order: the q, k and v of an attention are one, gate and up another."""
    members: dict[str, list[tuple[str, str, int]]] = {}
    for node in model.graph:
        if node.op_type not in _PRODUCTS or node.domain:
            continue
        read, weight = node.inputs[0], node.inputs[1]
        if read is None or weight is None or not weight.is_initializer() or weight.shape is None:
            continue
        members.setdefault(str(read.name), []).append(
            (str(weight.name), str(node.outputs[0].name), math.prod(weight.shape.numpy()))
        )
    return [
        ProductGroup(
            value,
            tuple(dict.fromkeys(weight for weight, _, _ in found)),
            tuple(output for _, output, _ in found),
            sum({weight: count for weight, _, count in found}.values()),
        )
        for value, found in members.items()
    ]
