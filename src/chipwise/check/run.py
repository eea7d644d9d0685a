"""Run every rule over a model and a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chipwise.check.check_input import CheckInput
from chipwise.check.load import load_graph
from chipwise.check.recipe_name import parse_recipe_name
from chipwise.check.rule import Rule
from chipwise.check.rules import RULES
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
        rules: The rules to run.

    Returns:
        The findings: errors, then warnings, then remarks; within each in the order of the rules.

    Raises:
        InputError: The context, the streams or the recipe's name are none.
        GraphError: The ONNX file holds no valid graph.
    """
    if (max_context is not None and max_context < 1) or n_streams < 1:
        raise InputError(
            f"a context of {max_context} tokens for {n_streams} streams is none", remedy="give numbers of at least 1"
        )
    given = CheckInput(
        model=model,
        target=target,
        graph=None if model.onnx_path is None else load_graph(model.onnx_path),
        recipe=None if recipe in (None, "auto") else parse_recipe_name(str(recipe)),
        max_context=max_context,
        n_streams=n_streams,
        dims=dict(dims or {}),
    )
    findings = [finding for one in rules for finding in one(given)]
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def has_errors(findings: Sequence[Finding]) -> bool:
    """Whether a finding keeps the build from going on."""
    return any(finding.severity == "error" for finding in findings)
