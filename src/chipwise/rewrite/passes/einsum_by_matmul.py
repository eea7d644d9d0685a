"""Einsum by MatMul: for chips that have no Einsum."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.check.symbolic import static_shape
from chipwise.rewrite.edit import Patch, all_nodes, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance


@dataclass(frozen=True)
class EinsumByMatMul:
    """Replace Einsum by Transpose, Reshape and MatMul.

    1. Two operands of known shapes: letters in both and in the result are the batch, letters in both and not in
       the result are summed over, letters in one operand and in the result are rows or columns.
    2. An ellipsis, a letter twice in one operand, a letter in one operand only that is summed away, another number
       of operands, or an unknown shape: the node stays and is named.
    """

    name: str = "einsum_by_matmul"
    requires: tuple[str, ...] = ("fix_shapes",)
    optional: bool = True
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Replace each Einsum that can be."""
        changed = 0
        kept = []
        for node in all_nodes(model):
            if node.op_type != "Einsum" or node.domain:
                continue
            plan = _Plan.of(node)
            if plan is None:
                kept.append(f"{node.name or 'Einsum'} stays: {node.attributes['equation'].as_string()}")
                continue
            plan.replace(node)
            changed += 1
        if changed:
            remove_unused(model)
            infer_types(model)
        notes = (f"{changed} Einsum by MatMul",) if changed else ()
        return PassResult(model, bool(changed), (*notes, *kept))


@dataclass(frozen=True)
class _Plan:
    """Which letters do what in a product of two operands."""

    left: str
    right: str
    result: str
    sizes: dict[str, int]

    @classmethod
    def of(cls, node: ir.Node) -> _Plan | None:
        """The plan of a node, None if it is beyond this pass."""
        equation = node.attributes["equation"].as_string().replace(" ", "")
        operands, arrow, result = equation.partition("->")
        letters = operands.split(",")
        if len(letters) != 2 or len(node.inputs) != 2 or "." in equation:
            return None
        if not arrow:
            counts = Counter("".join(letters))
            result = "".join(sorted(letter for letter, count in counts.items() if count == 1))
        left, right = letters
        if any(len(set(one)) != len(one) for one in (left, right, result)):
            return None
        if (set(left) ^ set(right)) - set(result):
            return None
        sizes: dict[str, int] = {}
        for value, names in zip(node.inputs, letters, strict=True):
            shape = static_shape(value)
            if shape is None or len(shape) != len(names):
                return None
            sizes |= dict(zip(names, shape, strict=True))
        return cls(left, right, result, sizes)

    def replace(self, node: ir.Node) -> None:
        """Put the product in the node's place."""
        batch = [letter for letter in self.left if letter in self.right and letter in self.result]
        inner = [letter for letter in self.left if letter in self.right and letter not in self.result]
        rows = [letter for letter in self.left if letter not in self.right]
        columns = [letter for letter in self.right if letter not in self.left]
        patch = Patch(node)
        a = self._arranged(patch, node.inputs[0], self.left, batch, rows, inner)
        b = self._arranged(patch, node.inputs[1], self.right, batch, inner, columns)
        product = patch.op("MatMul", [a, b])
        order = [*batch, *rows, *columns]
        product = _reshaped(patch, product, self._shape(batch, rows, columns), [self.sizes[one] for one in order])
        patch.replace(node.outputs[0], _transposed(patch, product, "".join(order), self.result))

    def _arranged(
        self, patch: Patch, value: ir.Value | None, letters: str, batch: list[str], rows: list[str], columns: list[str]
    ) -> ir.Value:
        """An operand as ``[*batch, rows, columns]``."""
        if value is None:
            raise ValueError("an Einsum operand is missing")
        turned = _transposed(patch, value, letters, "".join([*batch, *rows, *columns]))
        now = [self.sizes[one] for one in (*batch, *rows, *columns)]
        return _reshaped(patch, turned, now, self._shape(batch, rows, columns))

    def _shape(self, batch: list[str], rows: list[str], columns: list[str]) -> list[int]:
        groups = [[one] for one in batch] + [rows, columns]
        return [math.prod(self.sizes[one] for one in group) for group in groups]


def _reshaped(patch: Patch, value: ir.Value, now: list[int], wanted: list[int]) -> ir.Value:
    if now == wanted:
        return value
    return patch.op("Reshape", [value, patch.constant(np.asarray(wanted, dtype=np.int64))])


def _transposed(patch: Patch, value: ir.Value, source: str, target: str) -> ir.Value:
    if source == target:
        return value
    return patch.op("Transpose", [value], {"perm": [source.index(letter) for letter in target]})
