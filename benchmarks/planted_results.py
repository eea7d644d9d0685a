"""What the planted damage came to, as results/planted_damage.json keeps it, and as the page shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

COSINE_LOOKS_WELL = 0.99
"""What toolkits' guides take for a sound output, as one vector."""

PERPLEXITY_LOOKS_WELL = 1.10
"""The gate's own limit of the ratio."""

LOSS_POINTS = 3.0
"""Damage that costs as much on any dimension must not pass."""


@dataclass(frozen=True)
class PlantedRow:
    """One planting.

    Attributes:
        planted: What was done.
        culprit: What attribution must name first.
        named: What it named first.
        kl_nats: Divergence over answer tokens; None where the two sides were fed different tokens.
        lost_points: Points lost by dimension, measured on the cases.
        cases: Cases that were run.
        verdict: The gate's: ``pass``, ``fail`` or ``unclear``.
        failed_by: The gates that surely failed.
        output_cosine: Cosine of the logits of whole prompts, taken as one vector.
        layer_cosine: The lowest whole cosine of a value between layers.
        perplexity_ratio: On the reference's answers; None where the two sides were fed different tokens.
    """

    planted: str
    culprit: str
    named: str
    kl_nats: float | None
    lost_points: dict[str, float]
    cases: int
    verdict: str
    failed_by: tuple[str, ...]
    output_cosine: float
    layer_cosine: float
    perplexity_ratio: float | None

    @property
    def named_first(self) -> bool:
        """Whether attribution was right."""
        return self.culprit == self.named

    @property
    def costly(self) -> bool:
        """Whether a dimension lost as much as must not pass."""
        return any(points >= LOSS_POINTS for points in self.lost_points.values())

    @property
    def cosine_misses(self) -> bool:
        """Whether the cosine of the whole output looks well."""
        return self.output_cosine >= COSINE_LOOKS_WELL

    @property
    def perplexity_misses(self) -> bool:
        """Whether the perplexity of the reference's answers looks well; it cannot see what the prompt became."""
        return self.perplexity_ratio is None or self.perplexity_ratio <= PERPLEXITY_LOOKS_WELL


@dataclass(frozen=True)
class SoundRun:
    """Draws of cases on a model in which nothing was planted.

    Attributes:
        candidate: What was compared with the reference.
        cases: Cases a draw, rounded up to whole pairs of languages.
        verdicts: The gate's, a draw: ``pass``, ``fail`` or ``unclear``.
        kl_nats: The mean divergence, a draw.
    """

    candidate: str
    cases: int
    verdicts: tuple[str, ...] = ()
    kl_nats: tuple[float, ...] = ()


@dataclass(frozen=True)
class PlantedDamage:
    """results/planted_damage.json."""

    date: str
    model: str
    rows: tuple[PlantedRow, ...]
    sound: tuple[SoundRun, ...]


def planted_damage(result: PlantedDamage) -> list[str]:
    """The section of the page."""
    rows, costly = result.rows, [row for row in result.rows if row.costly]
    right = sum(row.named_first for row in rows)
    stopped = sum(row.verdict == "fail" for row in costly)
    missed = [
        sum(row.cosine_misses for row in costly),
        sum(row.perplexity_misses for row in costly),
        sum(row.cosine_misses and row.perplexity_misses for row in costly),
    ]
    return [
        "## Planted damage\n",
        f"`python -m benchmarks.planted_damage`, {result.date}. One thing at a time is spoilt in {result.model}, whose "
        "graphs are otherwise float32; `chipwise verify --attribute` does the same. Cases are drawn from the four "
        "domains, a quarter a dimension, the gate's thresholds are those of 4 bits; a run is repeated with twice the "
        "cases, once or twice, while its gate cannot tell. "
        f"Goals: the right culprit first in 9 of 10 ({right} of {len(rows)}: {_goal(right >= 0.9 * len(rows))}); "
        f"whatever costs {LOSS_POINTS:g} points or more on a dimension fails ({stopped} of {len(costly)}: "
        f"{_goal(stopped == len(costly))}).\n",
        "| planted | named first | lost on keyword / logic / long range / noise, points | gate (cases) | KL, nats "
        "| cosine of the logits | lowest of a layer | perplexity ratio |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(row) for row in rows),
        "",
        f"Of the {len(costly)} that cost {LOSS_POINTS:g} points or more, a cosine of the logits of at least "
        f"{COSINE_LOOKS_WELL} misses {missed[0]}, a perplexity ratio of at most {PERPLEXITY_LOOKS_WELL} on the "
        f"reference's own answers misses {missed[1]}, both together {missed[2]} (marked with an asterisk). A chat "
        "template changes neither: both are computed on tokens that someone else wrote.\n",
        *(_sound(one) for one in result.sound),
    ]


def _sound(run: SoundRun) -> str:
    passed, failed = run.verdicts.count("pass"), run.verdicts.count("fail")
    return (
        f"{run.candidate.capitalize()}: the gate passes in {passed} of {len(run.verdicts)} draws of {run.cases} cases, "
        f"fails in {failed}; largest mean divergence of a draw {max(run.kl_nats, default=0.0):.2g} nats.\n"
    )


def _row(row: PlantedRow) -> str:
    named = f"`{row.named or 'nothing'}`" + ("" if row.named_first else f", not `{row.culprit}`")
    order = ("keyword", "logic", "long_range", "noise")
    lost = " / ".join(f"{row.lost_points[name]:.1f}" if name in row.lost_points else "-" for name in order)
    verdict = {"fail": "fails", "pass": "passes", "unclear": "cannot tell"}[row.verdict]
    cells = [
        row.planted, named, lost, f"{verdict} ({row.cases})", _number(row.kl_nats),
        f"{row.output_cosine:.4f}{_mark(row.costly and row.cosine_misses)}", f"{row.layer_cosine:.4f}",
        f"{_number(row.perplexity_ratio)}{_mark(row.costly and row.perplexity_misses)}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _mark(missed: bool) -> str:
    return " *" if missed else ""


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if math.isfinite(value) else "infinite"


def _goal(met: bool) -> str:
    return "met" if met else "missed"
