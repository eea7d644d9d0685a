"""report.html: one file that needs no other, for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chipwise.report import html_charts, html_format
from chipwise.report.caveats import caveats
from chipwise.report.html_attribution import attribution_section
from chipwise.report.html_diff import mark_differences
from chipwise.report.html_dimensions import shown_dimensions, unscored_dimensions
from chipwise.report.html_pareto import pareto_charts
from chipwise.report.next_steps import next_steps
from chipwise.report.quality import CaseResult, Quality
from chipwise.report.repair import LayerLoss
from chipwise.report.report import LayerCosine, Report
from chipwise.report.summary import summarise_report
from chipwise.report.verdict import Verdict

WORST_CASES = 10
"""Cases shown side by side; report.json has them all."""

WORST_LAYERS = 8
"""Layers listed below the plots; report.json has them all."""

PROMPT_CHARACTERS = 800
"""What is shown of a longer prompt."""

_LAYER_VALUE = re.compile(r".*\.\d+\.(.*)")
_NO_LAYER = "outputs, and products inside"
_VALUE_KINDS = {"output": "Residual stream", "attn_out": "Attention output", "mlp_out": "Feed-forward output"}


@dataclass(frozen=True)
class Tile:
    """One figure of drift."""

    label: str
    value: str
    note: str
    unit: str = ""


@dataclass(frozen=True)
class ShownCase:
    """A case with its differences marked and its prompt cut."""

    case: CaseResult
    prompt: str
    cut: int
    reference: Markup
    candidate: Markup


def render_html(report: Report) -> str:
    """The report as one HTML page: style sheet and plots inline, no script, nothing fetched."""
    quality = report.quality
    return _TEMPLATE.render(
        report=report,
        quality=quality,
        headline=headline(report),
        caveats=caveats(report),
        summary=summarise_report(report),
        dimensions=shown_dimensions(report),
        unscored=unscored_dimensions(report),
        steps_next=next_steps(report),
        pareto=pareto_charts(report.tried),
        speeds=", ".join(dict.fromkeys(f"{m.method} on {m.hardware}" for m in report.measurements)),
        tiles=_quality_tiles(quality) if quality else [],
        charts=_charts(quality) if quality else [],
        layer_charts=_layer_charts(report.layers),
        worst_layers=sorted(report.layers, key=_worst_first)[:WORST_LAYERS],
        size_chart=html_charts.sizes(report.schemes) if report.schemes else None,
        sides=("Reference", "Candidate"),
        cases=[shown_case(case) for case in quality.worst(WORST_CASES)] if quality else [],
        losing_layers=sorted(report.losses, key=_most_lost_first)[:WORST_LAYERS],
        longest_step_s=max((step.duration_s for step in report.steps), default=0.0),
    )


def headline(report: Report) -> str:
    """What the gate says, in one sentence."""
    failed = [verdict for verdict in report.verdicts if verdict.outcome == "fail"]
    unclear = [verdict for verdict in report.verdicts if verdict.outcome == "unclear"]
    if not report.verdicts:
        return "Nothing was judged: this report says what was built, not whether it still does the job."
    if unclear and not failed:
        said = "; ".join(f"{_words(v).label} {_value(v)} ({requirement(v)}{_more(v)})" for v in unclear)
        return f"Not enough cases to tell: {said}."
    if not failed:
        return "The only gate holds." if len(report.verdicts) == 1 else f"All {_gates(report)} hold."
    said = "; ".join(f"{_words(v).label} {_value(v)} ({requirement(v)})" for v in failed)
    do = "does" if len(failed) == 1 else "do"
    return f"{len(failed)} of {_gates(report)} {do} not hold: {said}."


def _more(verdict: Verdict) -> str:
    return f", about {verdict.more_cases:,} more would do" if verdict.more_cases else ""


def _gates(report: Report) -> str:
    return f"{len(report.verdicts)} gate{'s' if len(report.verdicts) > 1 else ''}"


def need(verdict: Verdict) -> str:
    """What a verdict was held against, e.g. ``≤ 0.1 nats``, or ``0`` for a count of what must not be."""
    if verdict.none_allowed:
        return "0"
    sign = "≥" if verdict.direction == "min" else "≤"
    return f"{sign} {html_format.metric_value(verdict.metric, verdict.threshold, limit=True)}"


def requirement(verdict: Verdict) -> str:
    """The same in words: ``needs ≤ 0.1 nats`` or ``must be 0``."""
    return "must be 0" if verdict.none_allowed else f"needs {need(verdict)}"


def _words(verdict: Verdict) -> html_format.MetricWords:
    return html_format.metric_words(verdict.metric)


def _value(verdict: Verdict) -> str:
    return html_format.metric_value(verdict.metric, verdict.value)


def _quality_tiles(quality: Quality) -> list[Tile]:
    tiles = []
    if quality.semantic:
        ends = _between(quality.semantic.mean_interval).removeprefix(", ")
        p95 = html_format.number(quality.semantic.p95)
        note = f"mean of {quality.semantic.cases:,} cases, {ends}; 95th percentile {p95}"
        tiles.append(Tile("Semantic drift", html_format.number(quality.semantic.mean), note, "SDI"))
    if quality.answer:
        drift = quality.answer
        tokens = f"of {drift.positions:,} answer tokens"
        tiles.append(Tile("Same next token", html_format.percent(drift.top1_agreement), tokens))
        note = f"mean{_between(drift.kl_mean_interval)}; 95th percentile {html_format.number(drift.kl_p95_nats)}"
        tiles.append(Tile("KL divergence", html_format.number(drift.kl_mean_nats), note, "nats"))
        changed = f"of {len(quality.cases):,} cases"
        tiles.append(Tile("Answers changed", f"{quality.answers_changed:,}", changed))
    return tiles


def _between(ends: tuple[float, float] | None) -> str:
    return f", {html_format.number(ends[0])} to {html_format.number(ends[1])}" if ends else ""


def _charts(quality: Quality) -> list[list[tuple[str, Markup]]]:
    """The plots of drift with their captions, by column."""
    columns = []
    if quality.histogram and quality.answer:
        plot = html_charts.kl_histogram(quality.histogram, quality.answer.kl_mean_nats)
        columns.append([("KL divergence by position", plot)])
    if quality.by_position:
        along = (html_charts.kl_along_answer, html_charts.agreement_along_answer)
        captions = ("Along the answer: KL divergence", "Along the answer: same next token")
        columns.append([(text, plot(quality.by_position)) for text, plot in zip(captions, along, strict=True)])
    return columns


def _layer_charts(layers: Sequence[LayerCosine]) -> list[tuple[str, Markup]]:
    """One plot a kind of value: the residual stream first, then kinds that are not known, then all without a layer."""
    groups: dict[str, list[LayerCosine]] = {kind: [] for kind in _VALUE_KINDS}
    for layer in layers:
        found = _LAYER_VALUE.fullmatch(layer.name)
        groups.setdefault(found[1] if found else _NO_LAYER, []).append(layer)
    others = groups.pop(_NO_LAYER, [])
    return [
        (_VALUE_KINDS.get(kind, kind.replace("_", " ").capitalize()), html_charts.layer_cosines(group))
        for kind, group in [*groups.items(), (_NO_LAYER, others)]
        if group
    ]


def _worst_first(layer: LayerCosine) -> float:
    return layer.min if layer.min == layer.min else float("-inf")


def shown_case(case: CaseResult) -> ShownCase:
    """A case as the page shows it."""
    reference, candidate = mark_differences(case.reference_answer or "", case.candidate_answer)
    if case.reference_answer is None:
        candidate = Markup("{}").format(case.candidate_answer)
    cut = max(0, len(case.prompt) - PROMPT_CHARACTERS)
    return ShownCase(case, case.prompt[:PROMPT_CHARACTERS], cut, reference, candidate)


def _most_lost_first(loss: LayerLoss) -> float:
    return loss.own_cosine if loss.own_cosine == loss.own_cosine else float("-inf")


def environment() -> Environment:
    """What renders the templates of pages."""
    env = Environment(
        loader=PackageLoader("chipwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "number": html_format.number,
        "percent": html_format.percent,
        "interval": html_format.interval,
        "dimension": html_format.dimension,
        "size": html_format.size,
        "duration": html_format.duration,
        "moment": html_format.moment,
        "words": _words,
        "value": _value,
        "need": need,
        "code": html_format.marked_code,
        "attribution_section": attribution_section,
    }
    return env


_TEMPLATE = environment().get_template("report.html.j2")
