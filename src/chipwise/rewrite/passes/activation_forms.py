"""Activation forms: GELU, SiLU and Mish as one operator or written out, whichever the target runs better."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir

from chipwise.rewrite import elementwise
from chipwise.rewrite.edit import Patch, all_nodes, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance
from chipwise.rewrite.passes.opset_conversion import opset_of

Activation = Literal["gelu", "gelu_tanh", "silu", "mish"]
Form = Literal["operator", "written_out"]

_GRID = np.linspace(-8.0, 8.0, 321)
# Constants like 0.7071 in float16 are 1e-4 off; GELU and its approximation by tanh lie 5e-4 apart.
_SAME = 1.5e-4

_FUNCTIONS: dict[Activation, Callable[[elementwise.Float64], elementwise.Float64]] = {
    "gelu": elementwise.gelu,
    "gelu_tanh": elementwise.gelu_tanh,
    "silu": elementwise.silu,
    "mish": elementwise.mish,
}
_VALUES = {name: function(_GRID) for name, function in _FUNCTIONS.items()}

# The operator of each, and the first opset that has it.
OPERATORS: dict[Activation, tuple[str, int]] = {
    "gelu": ("Gelu", 20),
    "gelu_tanh": ("Gelu", 20),
    "silu": ("Swish", 24),
    "mish": ("Mish", 18),
}

# What an activation ends with, written out or not.
_LAST = frozenset({"Mul", "Div", "Gelu", "Swish", "Mish", "QuickGelu", "FastGelu"})

# The written-out forms, as PyTorch exports them: toolchains look for these.
_WRITTEN: dict[Activation, tuple[str, ...]] = {
    "gelu": ("Div", "Erf", "Add", "Mul", "Mul"),
    "gelu_tanh": ("Mul", "Mul", "Mul", "Add", "Mul", "Tanh", "Add", "Mul", "Mul"),
    "silu": ("Sigmoid", "Mul"),
    "mish": ("Softplus", "Tanh", "Mul"),
}


@dataclass(frozen=True)
class ActivationForms:
    """Bring activations into the form that the target wants.

    An activation is known by its values on a grid, so every way of writing it is found: constants on either side,
    products in any order, ``x / sqrt(2)`` or ``x * 0.7071``, ``Pow`` or ``x * x * x``.

    1. GELU by erf, written out or ``Gelu`` (opset 20): the other way round.
    2. GELU by tanh, written out or ``Gelu`` with ``approximate="tanh"``: the other way round. Neither turns into
       the other: they differ by 5e-4.
    3. SiLU, ``x * sigmoid(x)`` or ``Swish`` (opset 24) or ``com.microsoft.QuickGelu`` with alpha 1.
    4. Mish, ``x * tanh(softplus(x))`` in any form, or ``Mish`` (opset 18).
    5. An activation in the wanted form, or whose operator is newer than the model's opset, stays.

    Attributes:
        forms: The form wanted, by activation; one that is not named stays.
    """

    forms: Mapping[Activation, Form] = field(default_factory=dict)
    name: str = "activation_forms"
    requires: tuple[str, ...] = ()
    optional: bool = True
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Rewrite each activation that is not in its wanted form."""
        opset = opset_of(model)
        changed: Counter[str] = Counter()
        kept: set[str] = set()
        for node in all_nodes(model):
            found = find_activation(node) if node.graph is not None else None
            if found is None:
                continue
            kind, source, nodes = found
            form = self.forms.get(kind)
            if form is None or _has_form(nodes, kind, form):
                continue
            operator, since = OPERATORS[kind]
            if form == "operator" and opset < since:
                kept.add(f"{kind} stays written out: {operator} needs opset {since}, the model has {opset}")
                continue
            _rewrite(node, source, kind, form)
            changed[f"{kind} {'as operator' if form == 'operator' else 'written out'}"] += 1
        if changed:
            remove_unused(model)
        notes = [f"{count} {what}" for what, count in sorted(changed.items())]
        return PassResult(model, bool(changed), (*notes, *sorted(kept)))


def find_activation(node: ir.Node) -> tuple[Activation, ir.Value, list[ir.Node]] | None:
    """The activation that ends with a node: its kind, its input, its nodes in order; None if none does."""
    if node.op_type not in _LAST or not elementwise.is_elementwise(node):
        return None
    for source, nodes in elementwise.sources(node):
        values = elementwise.compute(nodes, source, _GRID)
        for kind, wanted in _VALUES.items():
            if np.max(np.abs(values - wanted)) < _SAME:
                return kind, source, nodes
    return None


def _has_form(nodes: list[ir.Node], kind: Activation, form: Form) -> bool:
    if form == "operator":
        return len(nodes) == 1 and nodes[0].op_type == OPERATORS[kind][0]
    return tuple(node.op_type for node in nodes) == _WRITTEN[kind]


def _rewrite(sink: ir.Node, x: ir.Value, kind: Activation, form: Form) -> None:
    patch = Patch(sink)
    old = sink.outputs[0]
    if form == "operator":
        attributes = {"approximate": "tanh"} if kind == "gelu_tanh" else {}
        new = patch.op(OPERATORS[kind][0], [x], attributes, like=old)
    else:
        new = _write_out(patch, x, kind, old)
    patch.replace(old, new)


def _write_out(patch: Patch, x: ir.Value, kind: Activation, like: ir.Value) -> ir.Value:
    dtype = x.dtype or like.dtype or ir.DataType.FLOAT

    def op(op_type: str, *inputs: ir.Value | float) -> ir.Value:
        values = [one if isinstance(one, ir.Value) else patch.constant(one, dtype) for one in inputs]
        return patch.op(op_type, values, like=like)

    if kind == "silu":
        return op("Mul", x, op("Sigmoid", x))
    if kind == "mish":
        return op("Mul", x, op("Tanh", op("Softplus", x)))
    if kind == "gelu":
        gate = op("Add", op("Erf", op("Div", x, math.sqrt(2.0))), 1.0)
        return op("Mul", op("Mul", x, gate), 0.5)
    cubed = op("Mul", op("Mul", op("Mul", x, x), x), 0.044715)
    gate = op("Add", op("Tanh", op("Mul", op("Add", x, cubed), math.sqrt(2.0 / math.pi))), 1.0)
    return op("Mul", op("Mul", x, gate), 0.5)
