"""Mask sites: where a graph keeps attention from looking, and by which numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.constants import constant_array

# Numbers this low are no bias a model learned, they are masks: -1e4, -65504, -1e9, -3.4e38, -inf.
MASKING = -1e3

# What may stand between a softmax and its mask, keeping the last axis ...
_AFTER_JOIN = frozenset({"Cast", "Clip", "Dropout", "Identity", "Max", "Reshape", "Squeeze", "Unsqueeze"})
# ... between two masks ...
_BETWEEN_JOINS = frozenset({"Cast", "Identity"})
# ... and between a mask and its numbers.
_MASK_OPS = frozenset(
    {
        "Add",
        "And",
        "Cast",
        "Concat",
        "ConstantOfShape",
        "Equal",
        "Expand",
        "Gather",
        "Identity",
        "Max",
        "Min",
        "Mul",
        "Not",
        "Or",
        "Reshape",
        "ScatterND",
        "Slice",
        "Squeeze",
        "Sub",
        "Sum",
        "Tile",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
    }
)
# Scores come out of one of these.
_PRODUCTS = frozenset({"MatMul", "Einsum", "Gemm", "Conv", "FusedMatMul"})

_DEPTH = 24


@dataclass(frozen=True)
class MaskConstant:
    """A constant with masking numbers in it.

    Attributes:
        value: The constant: an initializer, or the output of a Constant or ConstantOfShape node.
        user: The node on the way to the softmax that takes it.
        index: Which of the user's inputs it is.
        lowest: Its lowest number.
        highest: Its highest masking number.
    """

    value: ir.Value
    user: ir.Node
    index: int
    lowest: float
    highest: float


@dataclass(frozen=True)
class MaskSite:
    """A softmax that is masked.

    Attributes:
        softmax: The softmax.
        join: The node where scores and mask meet: Add or Where; the last one where there are several.
        scores: The scores before any mask.
        masks: What the joins add to them, or the conditions of their Wheres, the last one first.
        constants: The masking numbers that reach the softmax.
        additive: Whether every mask is added; otherwise one selects.
    """

    softmax: ir.Node
    join: ir.Node
    scores: ir.Value
    masks: tuple[ir.Value, ...]
    constants: tuple[MaskConstant, ...]
    additive: bool

    @property
    def lowest(self) -> float:
        """The lowest masking number."""
        return min(constant.lowest for constant in self.constants)

    @property
    def highest(self) -> float:
        """The highest masking number."""
        return max(constant.highest for constant in self.constants)


def mask_sites(graph: ir.Graph | ir.Function) -> list[MaskSite]:
    """Every masked softmax of a graph, without those of its subgraphs.

    Found are ``Softmax(scores + mask)`` and ``Softmax(Where(condition, scores, number))``, either way round, several
    in a row, with casts, reshapes and a Max in between, and masks computed from a few constants by any usual chain.
    """
    found = (_site(node) for node in graph if node.op_type == "Softmax" and not node.domain)
    return [site for site in found if site is not None]


def _site(softmax: ir.Node) -> MaskSite | None:
    constants: list[MaskConstant] = []
    node = _producer(softmax)
    while node is not None and node.op_type in _AFTER_JOIN:
        if node.op_type in ("Max", "Clip"):
            # Old exports clamp masked scores from below: Max(scores + mask, -3.4e38).
            constants += [c for i, v in enumerate(node.inputs[1:], 1) for c in _constant(node, i, v)]
        node = _producer(node)
    outer: MaskSite | None = None
    while node is not None:
        parts = _parts(node)
        if parts is None:
            break
        scores, mask, more = parts
        constants += more
        outer = MaskSite(
            softmax,
            node if outer is None else outer.join,
            scores,
            (mask,) if outer is None else (*outer.masks, mask),
            tuple(constants),
            node.op_type == "Add" and (outer is None or outer.additive),
        )
        node = scores.producer()
        while node is not None and node.op_type in _BETWEEN_JOINS:
            node = _producer(node)
    return outer


def _producer(node: ir.Node) -> ir.Node | None:
    value = node.inputs[0] if node.inputs else None
    producer = None if value is None else value.producer()
    return None if producer is None or producer.domain else producer


def _parts(node: ir.Node) -> tuple[ir.Value, ir.Value, list[MaskConstant]] | None:
    """The scores, the mask and the masking numbers of a join; None if the node is none."""
    if node.op_type not in ("Add", "Where") or node.domain or any(value is None for value in node.inputs):
        return None
    values = [value for value in node.inputs if value is not None]
    first = 1 if node.op_type == "Where" else 0
    for index in (first, first + 1):
        scores, other = values[2 * first + 1 - index], index
        constants = list(_reaching(node, other, values[other]))
        if constants and _is_product(scores):
            return scores, values[0] if first else values[other], constants
    return None


def _is_product(value: ir.Value) -> bool:
    """Whether a value is computed from a matrix product by a few elementwise steps: scores are, masks are not."""
    seen: set[ir.Node] = set()
    stack = [value.producer()]
    while stack and len(seen) < _DEPTH:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if node.op_type in _PRODUCTS:
            return True
        seen.add(node)
        stack.extend(one.producer() for one in node.inputs if one is not None)
    return False


def _reaching(user: ir.Node, index: int, value: ir.Value) -> Iterator[MaskConstant]:
    """The masking constants that reach an input of a node through mask arithmetic."""
    seen: set[tuple[ir.Node, int]] = set()
    stack = [(user, index, value)]
    while stack:
        node, position, current = stack.pop()
        if (node, position) in seen or len(seen) > 8 * _DEPTH:
            continue
        seen.add((node, position))
        yield from _constant(node, position, current)
        producer = current.producer()
        if producer is not None and not producer.domain and producer.op_type in _MASK_OPS:
            stack.extend((producer, i, v) for i, v in enumerate(producer.inputs) if v is not None)


def _constant(user: ir.Node, index: int, value: ir.Value | None) -> Iterator[MaskConstant]:
    array = constant_array(value)
    if array is None and value is not None:
        array = fill_of(value.producer())
    if value is None or array is None or array.dtype.kind != "f":
        return
    masking = array[array <= MASKING]
    if masking.size:
        yield MaskConstant(value, user, index, float(masking.min()), float(masking.max()))


def fill_of(node: ir.Node | None) -> npt.NDArray[Any] | None:
    """What a ConstantOfShape fills its output with; None for another node."""
    if node is None or node.op_type != "ConstantOfShape" or "value" not in node.attributes:
        return None
    return np.asarray(node.attributes["value"].as_tensor().numpy())
