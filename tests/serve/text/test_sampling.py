from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.errors import EngineError
from chipwise.serve.text.sampling import Sampler, SamplingParams


@st.composite
def a_row(draw: st.DrawFn) -> np.ndarray:
    """Logits: spread or flat, with ties, masked tokens and all sizes around a block of the sampler."""
    size = draw(st.integers(1, 3) | st.sampled_from([255, 256, 257, 512, 700]))
    chance = np.random.default_rng(draw(st.integers(0, 10**6)))
    logits = chance.normal(scale=draw(st.sampled_from([0.0, 1e-8, 0.3, 3.0, 30.0])), size=size).astype(np.float32)
    if draw(st.booleans()):
        logits = np.round(logits)
    masked = chance.random(size) < draw(st.sampled_from([0.0, 0.5]))
    masked[chance.integers(size)] = False
    logits[masked] = -np.inf
    return logits


LOGITS = a_row()


class Fixed:
    """A generator that draws what it is told."""

    def __init__(self, draw: float) -> None:
        self.draw = draw

    def random(self) -> float:
        return self.draw


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """The plain float64 definition."""
    scaled = logits.astype(np.float64)
    weights = np.exp((scaled - scaled.max()) / temperature)
    return weights / weights.sum()


def nucleus(logits: np.ndarray, temperature: float, top_p: float) -> list[int]:
    """The plain definition: likeliest first, ties by id, until the sum reaches top_p."""
    probabilities, chosen, total = softmax(logits, temperature), [], 0.0
    for token in sorted(range(len(logits)), key=lambda t: (-logits[t], t)):
        chosen.append(token)
        total += probabilities[token]
        if total >= top_p - 1e-7:
            break
    return chosen


@given(LOGITS)
def test_greedy_is_the_first_of_the_largest(logits: np.ndarray) -> None:
    params = SamplingParams(temperature=0.0)
    assert Sampler(len(logits)).sample(logits, params, params.generator()) == int(
        np.flatnonzero(logits == logits.max())[0]
    )


@given(LOGITS, st.floats(0.05, 2.0), st.floats(0.0, 1.0, exclude_max=True))
def test_draws_invert_the_distribution(logits: np.ndarray, temperature: float, draw: float) -> None:
    token = Sampler(len(logits)).sample(logits, SamplingParams(temperature=temperature), Fixed(draw))
    sums = softmax(logits, temperature).cumsum()
    assert softmax(logits, temperature)[token] > 0
    before = sums[token - 1] if token else 0.0
    assert before - 1e-5 <= draw <= sums[token] + 1e-5


@given(LOGITS, st.floats(0.05, 2.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0, exclude_max=True))
def test_nucleus_is_the_smallest_set(logits: np.ndarray, temperature: float, top_p: float, draw: float) -> None:
    token = Sampler(len(logits)).sample(logits, SamplingParams(temperature=temperature, top_p=top_p), Fixed(draw))
    if top_p < 1.0:
        # At the edge of the set a rounding of the sum may add or take one token.
        assert token in nucleus(logits, temperature, min(1.0, top_p + 1e-5))
    assert softmax(logits, temperature)[token] > 0


@pytest.mark.parametrize(
    ("top_p", "count"), [(0.0, 1), (1e-9, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.76, 4)]
)
def test_ties_are_cut_by_id(top_p: float, count: int) -> None:
    logits = np.full(1000, -200.0, dtype=np.float32)
    logits[[700, 3, 300, 999]] = 5.0
    params, sampler = SamplingParams(top_p=top_p), Sampler(1000)
    drawn = {sampler.sample(logits, params, Fixed(draw)) for draw in np.arange(0, 1, 1 / 64)}
    assert drawn == set([3, 300, 700, 999][:count])


def test_frequencies_follow_the_distribution() -> None:
    logits = np.array([1.0, 0.0, -1.0, 2.0, -np.inf], dtype=np.float32)
    params = SamplingParams(temperature=0.7, seed=11)
    sampler, chance = Sampler(5), params.generator()
    counts = np.bincount([sampler.sample(logits, params, chance) for _ in range(20000)], minlength=5)
    np.testing.assert_allclose(counts / 20000, softmax(logits, 0.7), atol=0.012)
    assert counts[4] == 0


def test_seed_repeats_and_its_absence_does_not() -> None:
    logits = np.random.default_rng(0).normal(size=500).astype(np.float32)
    sampler = Sampler(500)

    def draw(seed: int | None) -> list[int]:
        params = SamplingParams(seed=seed)
        chance = params.generator()
        return [sampler.sample(logits, params, chance) for _ in range(50)]

    assert draw(5) == draw(5)
    assert draw(-5) == draw(-5)
    assert draw(5) != draw(6)
    assert draw(None) != draw(None)


def test_tiny_temperature_is_greedy() -> None:
    logits = np.array([0.0, 1e-6, 1e-7], dtype=np.float32)
    for temperature in (0.0, 1e-300, 1e-9):
        params = SamplingParams(temperature=temperature)
        assert Sampler(3).sample(logits, params, Fixed(0.999999)) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("params", [SamplingParams(temperature=0.0), SamplingParams(), SamplingParams(top_p=0.5)])
def test_faulty_logits_are_named(bad: float, params: SamplingParams) -> None:
    logits = np.zeros(300, dtype=np.float32)
    logits[299] = bad
    with pytest.raises(EngineError, match=f"the model's logits hold {bad}"):
        Sampler(300).sample(logits, params, params.generator())
    with pytest.raises(EngineError, match="logits hold -inf"):
        Sampler(300).sample(np.full(300, -np.inf, dtype=np.float32), params, params.generator())


@given(LOGITS, st.integers(0, 20), st.data())
def test_logprobs_are_of_the_plain_distribution(logits: np.ndarray, n_top: int, data: st.DataObject) -> None:
    token = data.draw(st.integers(0, len(logits) - 1))
    found = Sampler(len(logits)).logprobs(logits, token, n_top)
    with np.errstate(divide="ignore"):
        plain = (
            logits.astype(np.float64) - logits.max() - np.log(np.exp(logits.astype(np.float64) - logits.max()).sum())
        )
    assert found.token == token
    assert math.isclose(found.logprob, plain[token], abs_tol=1e-4)
    expected = sorted(range(len(logits)), key=lambda t: (-logits[t], t))[:n_top]
    assert [t for t, _ in found.top] == expected
    np.testing.assert_allclose([p for _, p in found.top], plain[expected], atol=1e-4)


def test_large_vocabulary_allocates_no_row() -> None:
    size = 200_000
    logits = np.random.default_rng(1).normal(scale=4, size=size).astype(np.float32)
    sampler = Sampler(size)
    every = [
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=0.8),
        SamplingParams(temperature=0.8, top_p=0.9),
    ]
    generators = [params.generator() for params in every]

    def once() -> None:
        for params, chance in zip(every, generators, strict=True):
            sampler.logprobs(logits, sampler.sample(logits, params, chance), 20)

    once()
    tracemalloc.start()
    once()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * size / 2  # a row of logits has 4 bytes a token


@settings(max_examples=20)
@given(LOGITS)
def test_logits_are_left_as_they_are(logits: np.ndarray) -> None:
    copy, sampler = logits.copy(), Sampler(len(logits))
    sampler.sample(logits, SamplingParams(top_p=0.5), Fixed(0.5))
    sampler.logprobs(logits, 0, 3)
    np.testing.assert_array_equal(logits, copy)


@given(LOGITS, st.floats(0.0, 2.0), st.floats(0.05, 1.0), st.integers(0, 100), st.booleans())
def test_who_knows_the_likeliest_token_gets_the_same_choice(
    logits: np.ndarray, temperature: float, top_p: float, seed: int, grammar: bool
) -> None:
    allowed = np.random.default_rng(seed).random(len(logits)) < 0.5 if grammar else None
    if allowed is not None:
        allowed[np.flatnonzero(np.isfinite(logits))[-1]] = True  # else there is no choice
    params, sampler = SamplingParams(temperature, top_p, seed), Sampler(len(logits))
    wanted = sampler.sample(logits, params, params.generator(), allowed)
    assert sampler.sample(logits, params, params.generator(), allowed, best=int(logits.argmax())) == wanted


@given(LOGITS, st.floats(0.0, 2.0), st.floats(0.05, 1.0), st.integers(0, 100))
def test_tokens_that_are_not_allowed_count_as_impossible(
    logits: np.ndarray, temperature: float, top_p: float, seed: int
) -> None:
    allowed = np.random.default_rng(seed).random(len(logits)) < 0.3
    params, sampler = SamplingParams(temperature, top_p, seed), Sampler(len(logits))
    before = logits.copy()
    masked = np.where(allowed, logits, np.float32(-np.inf))
    if np.isfinite(masked).any():
        token = sampler.sample(logits, params, params.generator(), allowed)
        assert token == sampler.sample(masked, params, params.generator())
        assert allowed[token]
    else:
        with pytest.raises(EngineError, match="grammar allows"):
            sampler.sample(logits, params, params.generator(), allowed)
    assert np.array_equal(logits, before)
