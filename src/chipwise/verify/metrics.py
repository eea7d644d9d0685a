"""Drift of next-token distributions: KL divergence, agreement and likelihood, a position at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.report.quality import AnswerPosition, DriftSummary, KlHistogram

Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# Rows worked on at once: a few, so that what is between logits and result stays in the processor's cache.
_ROWS = 8

# exp() of it is 0 in float32, and differences of two such do not overflow.
_LOWEST = np.float32(-1e30)

HISTOGRAM_EDGES_NATS = tuple(float(edge) for edge in np.logspace(-6, 1, 29))
"""From 1e-6 to 10 nats, four bins a decade."""


@dataclass(frozen=True)
class PositionDrift:
    """Candidate against reference at n positions. All arrays have shape ``[n]``.

    Attributes:
        kl_nats: KL(reference || candidate); NaN where a side is not finite.
        agree: Whether both choose the same token; False where a side is not finite.
        nll_reference_nats: The reference's negative log-likelihood of the token that follows; NaN likewise.
        nll_candidate_nats: The candidate's.
        finite_reference: Whether all of the reference's logits are finite.
        finite_candidate: Whether all of the candidate's are.
    """

    kl_nats: Float64Array
    agree: BoolArray
    nll_reference_nats: Float64Array
    nll_candidate_nats: Float64Array
    finite_reference: BoolArray
    finite_candidate: BoolArray

    def __len__(self) -> int:
        return len(self.kl_nats)

    def __getitem__(self, rows: slice) -> PositionDrift:
        return PositionDrift(*(values[rows] for values in vars(self).values()))


def drift(
    reference: npt.NDArray[np.float32], candidate: npt.NDArray[np.float32], targets: npt.NDArray[np.int64]
) -> PositionDrift:
    """Compare the logits of the same positions.

    With log-softmax ``log p = r - max r - log z_r``: ``KL(p || q) = sum p (r' - c') - log z_r + log z_c`` where r', c'
    are the logits less their maximum. Exponentials are float32, sums float64: on a vocabulary of 49152 that agrees
    with float64 throughout within 3e-8 nats. What rounding leaves below zero is set to zero.

    Args:
        reference: The reference's logits ``[n, vocab]``.
        candidate: The candidate's, of the same shape.
        targets: The tokens that follow, ``[n]``.
    """
    parts = [
        _drift_rows(reference[i : i + _ROWS], candidate[i : i + _ROWS], targets[i : i + _ROWS])
        for i in range(0, len(targets), _ROWS)
    ]
    return concatenate(parts)


def _drift_rows(
    reference: npt.NDArray[np.float32], candidate: npt.NDArray[np.float32], targets: npt.NDArray[np.int64]
) -> PositionDrift:
    finite_reference, finite_candidate = _finite_rows(reference), _finite_rows(candidate)
    finite = finite_reference & finite_candidate
    rows = np.arange(len(targets))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        r = np.maximum(reference - reference.max(axis=1, keepdims=True), _LOWEST)
        c = np.maximum(candidate - candidate.max(axis=1, keepdims=True), _LOWEST)
        weights = np.exp(r)
        z_reference = weights.sum(axis=1, dtype=np.float64)
        z_candidate = np.exp(c).sum(axis=1, dtype=np.float64)
        weights *= r - c
        log_r, log_c = np.log(z_reference), np.log(z_candidate)
        kl = weights.sum(axis=1, dtype=np.float64) / z_reference - log_r + log_c
    return PositionDrift(
        kl_nats=np.where(finite, np.maximum(kl, 0.0), np.nan),
        agree=finite & (reference.argmax(axis=1) == candidate.argmax(axis=1)),
        nll_reference_nats=np.where(finite, log_r - r[rows, targets], np.nan),
        nll_candidate_nats=np.where(finite, log_c - c[rows, targets], np.nan),
        finite_reference=finite_reference,
        finite_candidate=finite_candidate,
    )


def _finite_rows(logits: npt.NDArray[np.float32]) -> BoolArray:
    return np.asarray(np.isfinite(logits).all(axis=1))


def concatenate(parts: Sequence[PositionDrift]) -> PositionDrift:
    """The positions of several parts, in order."""
    if not parts:
        none, no = np.zeros(0), np.zeros(0, dtype=bool)
        return PositionDrift(none, no, none, none, no, no)
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return PositionDrift(*(np.concatenate(column) for column in columns))


def summarise(positions: PositionDrift) -> DriftSummary:
    """The figures of a report. Positions that are not finite count as misses and stay out of means."""
    finite = positions.finite_reference & positions.finite_candidate
    kl = positions.kl_nats[finite]
    nan = float("nan")
    median, p95 = np.percentile(kl, [50, 95]) if kl.size else (nan, nan)
    return DriftSummary(
        positions=len(positions),
        kl_mean_nats=float(kl.mean()) if kl.size else nan,
        kl_median_nats=float(median),
        kl_p95_nats=float(p95),
        kl_max_nats=float(kl.max()) if kl.size else nan,
        top1_agreement=float(positions.agree.mean()) if len(positions) else nan,
        perplexity_reference=_perplexity(positions.nll_reference_nats[finite]),
        perplexity_candidate=_perplexity(positions.nll_candidate_nats[finite]),
        nonfinite_reference=int((~positions.finite_reference).sum()),
        nonfinite_candidate=int((~positions.finite_candidate).sum()),
    )


def _perplexity(nll_nats: Float64Array) -> float:
    if not nll_nats.size:
        return float("nan")
    with np.errstate(over="ignore"):
        return float(np.exp(nll_nats.mean()))


def histogram(prompt: PositionDrift, answer: PositionDrift) -> KlHistogram:
    """Positions by their KL divergence; those that are not finite are in no bin."""
    return KlHistogram(HISTOGRAM_EDGES_NATS, _bins(prompt.kl_nats), _bins(answer.kl_nats))


def _bins(kl_nats: Float64Array) -> tuple[int, ...]:
    inside = np.clip(kl_nats[np.isfinite(kl_nats)], HISTOGRAM_EDGES_NATS[0], HISTOGRAM_EDGES_NATS[-1])
    counts, _ = np.histogram(inside, bins=np.asarray(HISTOGRAM_EDGES_NATS))
    return tuple(int(count) for count in counts)


def along_answer(answers: Sequence[PositionDrift]) -> tuple[AnswerPosition, ...]:
    """Mean drift at each place of the answer, over the cases whose answer is that long.

    Args:
        answers: One entry a case, its positions in order.
    """
    length = max((len(answer) for answer in answers), default=0)
    kl = np.full((len(answers), length), np.nan)
    agree = np.zeros((len(answers), length))
    for row, answer in enumerate(answers):
        kl[row, : len(answer)] = answer.kl_nats
        agree[row, : len(answer)] = answer.agree
    finite = np.isfinite(kl)
    cases = finite.sum(axis=0)
    kl_sum, agree_sum = np.where(finite, kl, 0).sum(axis=0), np.where(finite, agree, 0).sum(axis=0)
    return tuple(
        AnswerPosition(i, int(cases[i]), float(kl_sum[i] / cases[i]), float(agree_sum[i] / cases[i]))
        for i in range(length)
        if cases[i]
    )
