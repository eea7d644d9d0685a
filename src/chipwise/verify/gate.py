"""The gate: what thresholds say of a Quality."""

from __future__ import annotations

from chipwise.report import Verdict
from chipwise.report.quality import Quality
from chipwise.verify.dimension_gate import judge_dimensions
from chipwise.verify.thresholds import Thresholds


def judge(quality: Quality, thresholds: Thresholds, *, tried: int = 1) -> tuple[Verdict, ...]:
    """Hold a quality against thresholds: one verdict a metric that was measured. A NaN never passes.

    A dimension without cases has no verdict; a candidate without a reference none on drift. A verdict on a dimension
    may be that there are not enough cases to tell.

    Args:
        quality: What was measured.
        thresholds: What must hold.
        tried: How many candidates have been tried on these cases, this one included. The more are tried, the likelier
            one passes by luck, and the surer each must be: the first to pass has the smallest p-value, which Holm's
            correction multiplies by their number.
    """
    verdicts = [
        *_drift(quality, thresholds),
        *judge_dimensions(quality.matrix, thresholds, tried=tried),
        *_semantic(quality, thresholds),
        *_self_checks(quality, thresholds),
        Verdict.judge("cases_nonfinite", quality.cases_nonfinite, thresholds.cases_nonfinite, "max"),
        Verdict.judge("cases_not_run", len(quality.not_run), thresholds.cases_not_run, "max"),
    ]
    if quality.prompts_differ:
        verdicts.append(Verdict.judge("prompts_differ", quality.prompts_differ, 0, "max"))
    if not quality.cases:
        # Nothing that ran is nothing that passed.
        verdicts.append(Verdict.judge("cases_run", 0, 1, "min"))
    return tuple(verdicts)


def _drift(quality: Quality, thresholds: Thresholds) -> list[Verdict]:
    drift = quality.answer
    if drift is None:
        return []
    return [
        Verdict.judge("kl_mean_nats", drift.kl_mean_nats, thresholds.kl_mean_nats, "max"),
        Verdict.judge("top1_agreement", drift.top1_agreement, thresholds.top1_agreement, "min"),
        Verdict.judge("perplexity_ratio", drift.perplexity_ratio, thresholds.perplexity_ratio, "max"),
    ]


def _semantic(quality: Quality, thresholds: Thresholds) -> list[Verdict]:
    # Nothing is asked for unless the user does: what a task bears depends on the embedding model and on the task.
    if quality.semantic is None or thresholds.sdi_mean >= Thresholds.sdi_mean:
        return []
    return [Verdict.judge("sdi_mean", quality.semantic.mean, thresholds.sdi_mean, "max")]


def _self_checks(quality: Quality, thresholds: Thresholds) -> list[Verdict]:
    limits = {
        "reference": thresholds.self_check_reference_nats,
        "candidate": thresholds.self_check_candidate_nats,
    }
    return [
        Verdict.judge(f"self_check_{check.session}_nats", check.kl_mean_nats, limits[check.session], "max")
        for check in quality.self_checks
    ]
