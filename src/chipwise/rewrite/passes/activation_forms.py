"""Activation forms: GELU, SiLU and Mish as one operator or written out, whichever the target runs better."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir

from chipwise.check.activations import Activation, Found, find_activation
from chipwise.rewrite.edit import Patch, all_nodes, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance
from chipwise.rewrite.passes.opset_conversion import OpsetConversion, opset_of

Form = Literal["operator", "written_out"]

# The operator of each, and the first opset that has it.
OPERATORS: dict[Activation, tuple[str, int]] = {
    "gelu": ("Gelu", 20),
    "gelu_tanh": ("Gelu", 20),
    "silu": ("Swish", 24),
    "mish": ("Mish", 18),
}

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
    5. An operator newer than the model's opset raises the opset.
    6. An activation in the wanted form stays.

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
        notes: list[str] = []
        wanted = self._unfit(model)
        if not wanted:
            return PassResult(model, False)
        needed = max((OPERATORS[one.kind][1] for one in wanted if self.forms[one.kind] == "operator"), default=0)
        if opset_of(model) < needed:
            raised = OpsetConversion(lowest=needed).apply(model, context)
            model, notes = raised.model, list(raised.notes)
            wanted = self._unfit(model)
        changed: Counter[str] = Counter()
        for stale in wanted:
            # Rewriting one may have replaced what the next one reads.
            one = find_activation(stale.nodes[-1]) or stale
            form = self.forms[one.kind]
            _rewrite(one, form)
            changed[f"{one.kind} {'as operator' if form == 'operator' else 'written out'}"] += 1
        remove_unused(model)
        notes += [f"{count} {what}" for what, count in sorted(changed.items())]
        return PassResult(model, True, tuple(notes))

    def _unfit(self, model: ir.Model) -> list[Found]:
        """The activations that are not in the form wanted."""
        found = (find_activation(node) for node in all_nodes(model))
        return [one for one in found if one is not None and not self._fits(one)]

    def _fits(self, found: Found) -> bool:
        """Whether an activation has the form wanted, or none is wanted."""
        form = self.forms.get(found.kind)
        if form is None:
            return True
        if form == "operator":
            return len(found.nodes) == 1 and found.nodes[0].op_type == OPERATORS[found.kind][0]
        return tuple(node.op_type for node in found.nodes) == _WRITTEN[found.kind]


def _rewrite(found: Found, form: Form) -> None:
    sink = found.nodes[-1]
    patch = Patch(sink)
    old = sink.outputs[0]
    if form == "operator":
        attributes = {"approximate": "tanh"} if found.kind == "gelu_tanh" else {}
        new = patch.op(OPERATORS[found.kind][0], [found.source], attributes, like=old)
    else:
        new = _write_out(patch, found.source, found.kind, old)
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
