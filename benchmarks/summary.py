"""From rounds to rates and ratios: medians, because a busy moment must not decide."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.results import Outcome, Rate, Ratio, Round

# Issue goals: at least the faster peer's speed, at most a tenth more memory than the smaller one.
RATE_GOAL = 1.0
MEMORY_GOAL = 1.1
OWN = "chipwise"


def rate(tokens: int, times_s: Sequence[float]) -> Rate:
    """Tokens a second: median, lowest and highest."""
    rates = [tokens / time_s for time_s in times_s]
    return Rate(statistics.median(rates), min(rates), max(rates))


def ratios(outcomes: Sequence[Outcome]) -> tuple[Ratio, ...]:
    """Our figures against the best peer's in decode, prefill and memory; nothing if either side is missing.

    Rates are compared round by round, since contestants of one round shared the machine's state.
    """
    own = next((outcome for outcome in outcomes if outcome.name == OWN), None)
    peers = [outcome for outcome in outcomes if outcome.name != OWN]
    if own is None or not peers:
        return ()
    fastest = {
        "decode": max(peers, key=lambda peer: peer.decode.median),
        "prefill": max(peers, key=lambda peer: peer.prefill.median),
    }
    found = [_rate_ratio(measure, own, peer) for measure, peer in fastest.items()]
    smallest = min(peers, key=lambda peer: peer.peak_bytes)
    value = own.peak_bytes / smallest.peak_bytes
    found.append(Ratio("memory", value, None, None, smallest.title, MEMORY_GOAL, value <= MEMORY_GOAL))
    return tuple(found)


def _rate_ratio(measure: str, own: Outcome, peer: Outcome) -> Ratio:
    pairs = zip(own.rounds, peer.rounds, strict=True)
    by_round = [_time(theirs, measure) / _time(ours, measure) for ours, theirs in pairs]
    value = statistics.median(by_round)
    return Ratio(measure, value, min(by_round), max(by_round), peer.title, RATE_GOAL, value >= RATE_GOAL)


def _time(found: Round, measure: str) -> float:
    return found.decode_s if measure == "decode" else found.prefill_s
