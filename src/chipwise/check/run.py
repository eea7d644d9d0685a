"""Run every rule over a model and a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from chipwise.check.check_input import CheckInput
from chipwise.check.load import load_graph
from chipwise.check.recipe_name import parse_recipe_name
from chipwise.check.rule import Rule
from chipwise.check.rules import RULES
from chipwise.check.symbolic import dim_symbols
from chipwise.errors import InputError
from chipwise.model.model import Model
from chipwise.report.finding import Finding
from chipwise.target.target import Target

_ORDER = {"error": 0, "warning": 1, "info": 2}


def check(
    model: Model,
    target: Target,
    *,
    max_context: int | None = None,
    n_streams: int = 1,
    recipe: str | None = None,
    dims: Mapping[str, int] | None = None,
    fixed: Mapping[str, float] | None = None,
    rules: Sequence[Rule] = RULES,
) -> list[Finding]:
    """Hold a model against a target.

    Args:
        model: The model, as an importer read it.
        target: The target.
        max_context: The longest context wanted, in tokens; None for what model and chip allow, up to 2048.
        n_streams: Conversations held at once.
        recipe: The name of a quantization recipe, e.g. ``w4a16_g64``; None or ``auto`` for none.
        dims: Sizes of an ONNX graph's symbolic dimensions.
        fixed: Inputs of an ONNX graph that shall be constants, and their value.
        rules: The rules to run.

    Returns:
        The findings: errors, then warnings, then remarks; within each in the order of the rules.

    Raises:
        InputError: The context, the streams or the recipe's name are none, or an input cannot be fixed so.
        GraphError: The ONNX file holds no valid graph.
    """
    if (max_context is not None and max_context < 1) or n_streams < 1:
        raise InputError(
            f"a context of {max_context} tokens for {n_streams} streams is none", remedy="give numbers of at least 1"
        )
    graph = None if model.onnx_path is None else load_graph(model.onnx_path, fixed)
    _require_dims(graph, dims or {})
    given = CheckInput(
        model=model,
        target=target,
        graph=graph,
        recipe=None if recipe in (None, "auto") else parse_recipe_name(str(recipe)),
        max_context=max_context,
        n_streams=n_streams,
        dims=dict(dims or {}),
    )
    findings = [finding for one in rules for finding in one(given)]
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def _require_dims(graph: ir.Model | None, dims: Mapping[str, int]) -> None:
    """Refuse sizes of dimensions that the graph does not have: a misspelt one would be left open in silence."""
    values = graph.graph.inputs if graph is not None else []
    places = [(value, axis, dim) for value in values for axis, dim in enumerate(value.shape or ())]
    named = {name for _, _, dim in places for name in dim_symbols(dim)}
    unknown = sorted(set(dims) - named - {f"{value.name}:{axis}" for value, axis, _ in places})
    if unknown:
        there = f"there are {', '.join(sorted(named))}" if named else "leave it out: no dimension here is open"
        raise InputError(f"no dimension {unknown[0]!r}", where="--dim", remedy=there)


def has_errors(findings: Sequence[Finding]) -> bool:
    """Whether a finding keeps the build from going on."""
    return any(finding.severity == "error" for finding in findings)
