from __future__ import annotations

import math
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chipwise.verify.metrics import (
    HISTOGRAM_EDGES_NATS,
    along_answer,
    concatenate,
    drift,
    histogram,
    summarise,
)

Array = npt.NDArray[np.float32]

# What float32 exponentials leave, on logits of this size.
NOISE_NATS = 1e-5

logits_pairs = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float32, shape, elements=st.floats(-30, 30, width=32)),
        hnp.arrays(np.float32, shape, elements=st.floats(-30, 30, width=32)),
    )
)


def targets_for(logits: Array) -> npt.NDArray[np.int64]:
    return np.arange(len(logits), dtype=np.int64) % logits.shape[1]


def log_softmax(logits: Array) -> npt.NDArray[np.float64]:
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis=1, keepdims=True)))


def test_kl_by_hand() -> None:
    # p = (1/2, 1/2), q = (1/4, 3/4): KL = ln 2 / 2 + ln(2/3) / 2
    p, q = np.log(np.array([[0.5, 0.5]], np.float32)), np.log(np.array([[0.25, 0.75]], np.float32))
    found = drift(p, q, np.array([0]))
    assert found.kl_nats[0] == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-6)
    assert found.nll_reference_nats[0] == pytest.approx(math.log(2), abs=1e-6)
    assert found.nll_candidate_nats[0] == pytest.approx(math.log(4), abs=1e-6)


def test_kl_has_a_direction() -> None:
    p, q = np.log(np.array([[0.9, 0.1]], np.float32)), np.log(np.array([[0.5, 0.5]], np.float32))
    forward, backward = drift(p, q, np.array([0])), drift(q, p, np.array([0]))
    assert forward.kl_nats[0] == pytest.approx(0.9 * math.log(1.8) + 0.1 * math.log(0.2), abs=1e-6)
    assert backward.kl_nats[0] == pytest.approx(0.5 * math.log(5 / 9) + 0.5 * math.log(5), abs=1e-6)


@given(logits_pairs)
def test_kl_is_never_negative_and_agrees_with_float64(pair: tuple[Array, Array]) -> None:
    reference, candidate = pair
    found = drift(reference, candidate, targets_for(reference))
    log_p, log_q = log_softmax(reference), log_softmax(candidate)
    assert (found.kl_nats >= 0).all()
    np.testing.assert_allclose(found.kl_nats, (np.exp(log_p) * (log_p - log_q)).sum(axis=1), atol=NOISE_NATS)
    rows = np.arange(len(reference))
    np.testing.assert_allclose(found.nll_candidate_nats, -log_q[rows, targets_for(reference)], atol=NOISE_NATS)


@given(logits_pairs)
def test_a_model_does_not_differ_from_itself(pair: tuple[Array, Array]) -> None:
    found = summarise(drift(pair[0], pair[0].copy(), targets_for(pair[0])))
    assert found.kl_max_nats == 0
    assert found.top1_agreement == 1
    assert found.perplexity_ratio == 1


@given(logits_pairs, st.floats(-50, 50), st.floats(-50, 50))
def test_a_constant_on_all_logits_changes_nothing(pair: tuple[Array, Array], one: float, other: float) -> None:
    targets = targets_for(pair[0])
    plain = drift(*pair, targets)
    moved = drift(pair[0] + np.float32(one), pair[1] + np.float32(other), targets)
    np.testing.assert_allclose(moved.kl_nats, plain.kl_nats, atol=2e-4)
    np.testing.assert_allclose(moved.nll_candidate_nats, plain.nll_candidate_nats, atol=2e-4)


def test_float32_is_enough_for_a_large_vocabulary() -> None:
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 4, (5, 49152)).astype(np.float32)
    candidate = reference + rng.normal(0, 0.02, reference.shape).astype(np.float32)
    log_p, log_q = log_softmax(reference), log_softmax(candidate)
    found = drift(reference, candidate, targets_for(reference))
    np.testing.assert_allclose(found.kl_nats, (np.exp(log_p) * (log_p - log_q)).sum(axis=1), atol=2e-7)


@pytest.mark.parametrize("scale", [1e30, 3e38])
def test_huge_logits_stay_finite(scale: float) -> None:
    reference, candidate = np.array([[scale, -scale]], np.float32), np.array([[-scale, scale]], np.float32)
    found = drift(reference, candidate, np.array([0]))
    assert np.isfinite(found.kl_nats).all()
    assert found.kl_nats[0] > 1e20


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_what_is_not_finite_is_counted_and_left_out_of_means(bad: float, side: str) -> None:
    rng = np.random.default_rng(1)
    sides = {name: rng.normal(0, 1, (4, 9)).astype(np.float32) for name in ("reference", "candidate")}
    sides["candidate"] = sides["reference"].copy()
    sides[side][2, 5] = bad
    found = drift(sides["reference"], sides["candidate"], np.zeros(4, np.int64))
    assert np.isnan(found.kl_nats).tolist() == [False, False, True, False]
    total = summarise(found)
    assert (total.nonfinite_reference, total.nonfinite_candidate) == ((1, 0) if side == "reference" else (0, 1))
    assert total.kl_mean_nats == 0
    assert total.positions == 4
    assert total.top1_agreement == 0.75


def test_nothing_finite_gives_nan_and_no_positions_too() -> None:
    broken = np.full((2, 3), np.nan, np.float32)
    total = summarise(drift(broken, broken, np.zeros(2, np.int64)))
    assert math.isnan(total.kl_mean_nats)
    assert total.top1_agreement == 0
    assert math.isnan(total.perplexity_ratio)
    none = summarise(concatenate([]))
    assert none.positions == 0
    assert math.isnan(none.top1_agreement)


def test_a_perplexity_beyond_float_is_infinite() -> None:
    reference, candidate = np.array([[0, 0]], np.float32), np.array([[0, 2000]], np.float32)
    assert summarise(drift(reference, candidate, np.array([0]))).perplexity_ratio == math.inf


def test_perplexity_ratio_by_hand() -> None:
    p, q = np.log(np.array([[0.5, 0.5]] * 2, np.float32)), np.log(np.array([[0.25, 0.75]] * 2, np.float32))
    total = summarise(drift(p, q, np.array([0, 0])))
    assert total.perplexity_reference == pytest.approx(2)
    assert total.perplexity_candidate == pytest.approx(4)
    assert total.perplexity_ratio == pytest.approx(2)


def test_median_and_percentile() -> None:
    rng = np.random.default_rng(2)
    reference = rng.normal(0, 1, (101, 7)).astype(np.float32)
    found = drift(
        reference, reference + rng.normal(0, 0.3, reference.shape).astype(np.float32), np.zeros(101, np.int64)
    )
    total, ordered = summarise(found), np.sort(found.kl_nats)
    assert total.kl_median_nats == ordered[50]
    assert total.kl_p95_nats == ordered[95]
    assert total.kl_max_nats == ordered[100]


def test_histogram_counts_every_finite_position() -> None:
    reference = np.zeros((3, 2), np.float32)
    candidate = np.array([[0, 0], [0, 1], [0, 500]], np.float32)
    found = drift(reference, candidate, np.zeros(3, np.int64))
    bins = histogram(concatenate([]), found)
    assert bins.edges_nats == HISTOGRAM_EDGES_NATS
    assert sum(bins.prompt) == 0
    assert sum(bins.answer) == 3
    # Zero falls in the first bin, what is above 10 nats in the last.
    assert (bins.answer[0], bins.answer[-1]) == (1, 1)


def test_along_the_answer_only_those_that_reach_a_place_count() -> None:
    zero, one = np.zeros((3, 2), np.float32), np.array([[0, 1]] * 3, np.float32)
    long, short = drift(zero, one, np.zeros(3, np.int64)), drift(zero, zero, np.zeros(3, np.int64))[:1]
    places = along_answer([long, short])
    assert [place.cases for place in places] == [2, 1, 1]
    assert places[0].kl_mean_nats == pytest.approx(long.kl_nats[0] / 2)
    assert places[0].top1_agreement == 0.5
    assert places[1].kl_mean_nats == pytest.approx(long.kl_nats[1])
    assert along_answer([]) == ()


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(1, 40))
def test_parts_give_what_the_whole_gives(cut: int, n: int) -> None:
    rng = np.random.default_rng(n)
    reference, candidate = rng.normal(0, 2, (2, n, 11)).astype(np.float32)
    targets = rng.integers(0, 11, n)
    whole = drift(reference, candidate, targets)
    parts = [drift(reference[s], candidate[s], targets[s]) for s in (slice(0, cut), slice(cut, None))]
    np.testing.assert_array_equal(concatenate(parts).kl_nats, whole.kl_nats)


def test_memory_does_not_grow_with_positions() -> None:
    reference = np.random.default_rng(3).normal(0, 1, (256, 4096)).astype(np.float32)
    candidate, targets = reference.copy(), np.zeros(256, np.int64)
    tracemalloc.start()
    drift(reference, candidate, targets)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < reference.nbytes / 2
