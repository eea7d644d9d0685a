"""Fix shapes: symbolic dimensions become the sizes that the model is built for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.infer import infer_types
from chipwise.check.symbolic import dim_symbols, input_dim_size, is_size
from chipwise.errors import InputError, QueryFileError
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance


def length_for(lengths: Sequence[int], share: float = 0.95, multiple: int = 32) -> int:
    """The smallest multiple of ``multiple`` tokens that at least ``share`` of the lengths fit in.

    Args:
        lengths: Lengths of the user's queries, in tokens.
        share: Share of the queries that must fit, above 0 and at most 1.
        multiple: What the length must be a multiple of, in tokens.

    Raises:
        QueryFileError: There are no lengths, or one is below 1.
        InputError: The share or the multiple is out of range.
    """
    if not 0 < share <= 1 or multiple < 1:
        raise InputError(f"share {share} and multiple {multiple} are out of range", remedy="use 0 < share <= 1")
    if not lengths or min(lengths) < 1:
        raise QueryFileError("no query has a length of at least one token", remedy="give at least one real query")
    ordered = sorted(lengths)
    # share * n can come out a hair above the whole number it stands for (0.07 * 100).
    covered = ordered[min(len(ordered), max(1, math.ceil(round(share * len(ordered), 9)))) - 1]
    return math.ceil(covered / multiple) * multiple


@dataclass(frozen=True)
class FixShapes:
    """Give symbolic dimensions of the inputs their sizes.

    1. A named dimension takes the size given for its name, wherever it occurs.
    2. A dimension that is an expression (``past + seq``) takes the value of the expression.
    3. A dimension without a name takes the size given for ``input:axis``, e.g. ``input_ids:1``.
    4. Shapes inside the graph are inferred again.
    5. A dimension that nothing was given for stays, and a note names it.

    The sizes are those of the context.
    """

    name: str = "fix_shapes"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Fix the inputs' shapes and infer the rest.

        Raises:
            InputError: A size is not positive, or a name is none of the model's.
        """
        _require_known(model, context.dims)
        fixed: dict[str, int] = {}
        left: list[str] = []
        for value in _fed_inputs(model):
            if value.shape is None:
                left.append(f"{value.name} (no shape)")
                continue
            shape = list(value.shape)
            for axis, dim in enumerate(value.shape):
                if is_size(dim):
                    continue
                size = input_dim_size(value, axis, context.dims)
                label = str(dim) if dim_symbols(dim) else f"{value.name}:{axis}"
                if size is None:
                    left.append(label)
                    continue
                shape[axis] = size
                fixed[label] = size
            value.shape = ir.Shape(shape)
        if fixed:
            _forget_symbols(model)
            infer_types(model)
        notes = [f"fixed {', '.join(f'{label}={size}' for label, size in sorted(fixed.items()))}"] if fixed else []
        if left:
            notes.append(f"left symbolic: {', '.join(sorted(set(left)))}")
        return PassResult(model, bool(fixed), tuple(notes))


def _require_known(model: ir.Model, dims: Mapping[str, int]) -> None:
    bad = {name: size for name, size in dims.items() if size < 1}
    if bad:
        raise InputError(f"sizes must be positive, got {bad}", remedy="give sizes of at least 1")
    known: set[str] = set()
    named: set[str] = set()
    for value in _fed_inputs(model):
        for axis, dim in enumerate(value.shape or ()):
            if is_size(dim):
                continue
            known |= {f"{value.name}:{axis}", str(dim)}
            named |= dim_symbols(dim) or {f"{value.name}:{axis}"}
    unknown = sorted(set(dims) - known - named)
    if unknown:
        raise InputError(
            f"the model has no symbolic dimension {', '.join(unknown)}",
            remedy=f"it has {', '.join(sorted(named)) or 'none'}",
        )


def _fed_inputs(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]


def _forget_symbols(model: ir.Model) -> None:
    """Drop the stale shapes of computed values, so that inference fills them with sizes.

    A graph output keeps its rank: ONNX wants one there.
    """
    for graph in model.graphs():
        for node in graph:
            for value in node.outputs:
                if value.shape is None or value.shape.is_static():
                    continue
                value.shape = ir.Shape([None] * len(value.shape)) if value.is_graph_output() else None
