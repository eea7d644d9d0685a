from __future__ import annotations

import pytest

from benchmarks.summary import rate, ratios
from tests.benchmarks.samples import outcome


def test_a_rate_is_the_median_so_that_one_busy_round_does_not_count() -> None:
    found = rate(64, [1.0, 0.5, 64.0])
    assert (found.median, found.lowest, found.highest) == (64.0, 1.0, 128.0)


def test_ratios_are_taken_round_by_round_against_the_faster_peer() -> None:
    own = outcome("chipwise", prefill_s=(1.0, 2.0, 4.0), decode_s=(1.0, 1.0, 1.0), peak_bytes=110)
    # Slower in both, but smaller.
    small = outcome("llamacpp", prefill_s=(3.0, 6.0, 12.0), decode_s=(2.0, 2.0, 2.0), peak_bytes=100)
    fast = outcome("genai", prefill_s=(1.5, 3.0, 6.0), decode_s=(0.5, 0.9, 0.8), peak_bytes=400)
    decode, prefill, memory = ratios([own, small, fast])
    assert (decode.measure, decode.value, decode.lowest, decode.highest) == ("decode", 0.8, 0.5, 0.9)
    assert not decode.met
    # The machine slowed down by the round, and the ratio stays the same.
    assert (prefill.measure, prefill.value, prefill.lowest, prefill.highest) == ("prefill", 1.5, 1.5, 1.5)
    assert prefill.met
    assert (prefill.against, memory.against) == ("genai", "llamacpp")
    assert memory.value == pytest.approx(1.1)
    assert memory.met


def test_without_peers_nothing_is_compared() -> None:
    assert ratios([outcome("chipwise")]) == ()
    assert ratios([outcome("genai"), outcome("llamacpp")]) == ()
