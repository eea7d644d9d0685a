"""Erf by tanh: for chips that have no Erf."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.activations import find_activation
from chipwise.rewrite.edit import Patch, all_nodes, remove_unused
from chipwise.rewrite.pass_ import PassResult, RewriteContext, Tolerance

# Coefficients of x, x^3, ... in erf(x) ~ tanh(p(x)), by weighted least squares on [0, 3.4]: largest error 2.9e-6.
COEFFICIENTS = (1.12835821, 0.102932797, -0.000496735472, -0.000415173510, 0.0000322496852)
LIMIT = 3.4

_TOLERANCE = Tolerance(max_rel=1e-4, max_abs=1e-5)


@dataclass(frozen=True)
class ErfByTanh:
    """Replace Erf by Tanh of a polynomial, at most 3e-6 off.

    1. An Erf that is part of a GELU stays: toolchains fuse the whole.
    2. Any other becomes ``tanh(x * P(x * x))`` with x clipped to +-3.4, where erf is 1 within 1.6e-6.
    3. With ``in_gelu`` those of GELUs are replaced too.

    Attributes:
        in_gelu: Whether the target does not fuse GELU either.
    """

    in_gelu: bool = False
    name: str = "erf_by_tanh"
    requires: tuple[str, ...] = ("activation_forms",)
    optional: bool = True
    tolerance: Tolerance = _TOLERANCE

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Replace each Erf that no fusion will take."""
        kept: set[ir.Node] = set()
        if not self.in_gelu:
            for node in all_nodes(model):
                found = find_activation(node)
                if found is not None and found.kind == "gelu":
                    kept |= set(found.nodes)
        erfs = [node for node in all_nodes(model) if node.op_type == "Erf" and not node.domain and node not in kept]
        for node in erfs:
            _replace(node)
        if erfs:
            remove_unused(model)
        return PassResult(model, bool(erfs), (f"{len(erfs)} Erf by tanh",) if erfs else ())


def _replace(node: ir.Node) -> None:
    source = node.inputs[0]
    if source is None:
        return
    patch = Patch(node)
    dtype = source.dtype or ir.DataType.FLOAT

    def op(op_type: str, *inputs: ir.Value | float) -> ir.Value:
        values = [one if isinstance(one, ir.Value) else patch.constant(one, dtype) for one in inputs]
        return patch.op(op_type, values, like=node.outputs[0])

    x = op("Min", op("Max", source, -LIMIT), LIMIT)
    square = op("Mul", x, x)
    total: ir.Value | float = COEFFICIENTS[-1]
    for coefficient in reversed(COEFFICIENTS[:-1]):
        total = op("Add", op("Mul", square, total), coefficient)
    patch.replace(node.outputs[0], op("Tanh", op("Mul", x, total)))
