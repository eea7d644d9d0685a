"""The gate on dimensions: pass, fail, or not enough cases to tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from chipwise.report import Verdict
from chipwise.report.quality import DimensionScore
from chipwise.verify.certainty.decision import Decision, decide_loss, decide_share
from chipwise.verify.certainty.holm import holm
from chipwise.verify.certainty.mcnemar import worse
from chipwise.verify.thresholds import METRICS, Thresholds


def judge_dimensions(matrix: Sequence[DimensionScore], thresholds: Thresholds, *, tried: int = 1) -> list[Verdict]:
    """A verdict on each dimension's cases together, and with a reference on whether that passes itself.

    Args:
        matrix: The domain matrix; rows by label are not judged.
        thresholds: What must hold.
        tried: How many candidates have been tried on these cases. Each must be that much surer to pass.
    """
    rows = [row for row in matrix if row.label == "all"]
    alpha = (1 - thresholds.certainty) / (1 if thresholds.certainty == 0 else tried)
    limits = thresholds.to_dict()
    losses = [row for row in rows if row.reference is not None]
    # That one of several dimensions seems worse by accident is likelier than that a certain one does.
    corrected = holm([worse(row.broke, row.fixed) for row in losses])
    adjusted = {row.dimension: p for row, p in zip(losses, corrected, strict=True)}
    return [verdict for row in rows for verdict in _verdicts(row, limits, alpha, 1 - thresholds.certainty, adjusted)]


def _verdicts(
    row: DimensionScore, limits: dict[str, float], alpha: float, fail_alpha: float, adjusted: dict[str, float]
) -> Iterator[Verdict]:
    metric = METRICS[row.dimension]
    if row.reference is None:
        least = limits[metric]
        verdict = Verdict.judge(metric, row.candidate / row.scored, least, "min")
        yield _with(verdict, decide_share(row.candidate, row.scored, least, alpha))
        return
    name = f"{metric}_drop"
    verdict = Verdict.judge(name, row.drop, limits[name], "max")
    # Holm's factor, carried over to the level that this row's own p-value is held against.
    own = worse(row.broke, row.fixed)
    factor = adjusted[row.dimension] / own if own else 1.0
    found = decide_loss(row.broke, row.fixed, row.scored, limits[name], alpha, fail_alpha=fail_alpha / max(1.0, factor))
    yield _with(verdict, found)
    floor = f"{metric}_reference"
    yield Verdict.judge(floor, row.reference / row.scored, limits[floor], "min")


def _with(verdict: Verdict, found: Decision) -> Verdict:
    return replace(verdict, sure=found.sure, more_cases=found.more_cases)
