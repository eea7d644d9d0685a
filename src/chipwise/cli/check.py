"""`chipwise check`: findings about a model on a target."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import click

from chipwise.check.run import check as check_model
from chipwise.check.run import has_errors
from chipwise.cli.numbers import CONTEXT, STREAMS, dimensions, fixed_values
from chipwise.model.importer import load_model
from chipwise.report.finding import Finding
from chipwise.target.catalog import load_target


@click.command()
@click.argument("model")
@click.option("--target", "-t", required=True, help="Chip, board or host; `chipwise targets` lists them.")
@click.option("--recipe", "-r", help="Quantization recipe, e.g. w8a8 or w4a16_g64.")
@click.option("--context", type=click.IntRange(1, CONTEXT.max), help="Longest context wanted, in tokens.")
@click.option("--streams", type=STREAMS, default=1, show_default=True, help="Conversations at once.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Size of a dimension; may be given often.")
@click.option("--fix", "fixed", multiple=True, metavar="NAME=VALUE", help="Value an ONNX input has for good.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(
    model: str,
    target: str,
    recipe: str | None,
    context: int | None,
    streams: int,
    dims: tuple[str, ...],
    fixed: tuple[str, ...],
    as_json: bool,
) -> int:
    """Hold MODEL against a target before anything is built.

    MODEL is a Hugging Face folder, a GGUF or ONNX file, or hf:OWNER/NAME. Ends with 1 if a finding is an error.
    """
    sizes, values = dimensions(dims), fixed_values(fixed)
    chosen = load_target(target)
    findings = check_model(
        load_model(model), chosen, max_context=context, n_streams=streams, recipe=recipe, dims=sizes, fixed=values
    )
    if as_json:
        click.echo(json.dumps({"findings": [finding.to_dict() for finding in findings]}, indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            click.echo(finding.line())
        click.echo(_summary(findings, chosen.name))
    return 1 if has_errors(findings) else 0


def _summary(findings: Sequence[Finding], target: str) -> str:
    counts = Counter(finding.severity for finding in findings)
    if not counts:
        return f"{target}: nothing found"
    return f"{target}: {counts['error']} errors, {counts['warning']} warnings, {counts['info']} remarks"
