from __future__ import annotations

from itertools import count

import pytest

from chipwise.verify.speed import DECODE_TOKENS, ROUNDS, Speed, measure_speed
from tests.verify.fakes import TinySession


def test_rates_follow_from_the_clock() -> None:
    # Each look at the clock is a second later: a round reads in one, and decodes in one.
    ticks = count()
    session = TinySession(max_context=64, max_step_tokens=5)
    speed = measure_speed(session, "a board", clock=lambda: float(next(ticks)))
    assert speed is not None
    assert (speed.prefill.name, speed.prefill.value, speed.prefill.unit) == ("prefill", 64 - DECODE_TOKENS, "tok/s")
    assert (speed.decode.value, speed.decode.spread, speed.decode.n) == (DECODE_TOKENS, 0, ROUNDS - 1)
    assert (speed.decode.method, speed.decode.hardware) == ("measured", "a board")
    decodes = [step for step in session.steps if step.new_tokens == 1]
    assert [step.past for step in decodes[:DECODE_TOKENS]] == [(52 + i,) for i in range(DECODE_TOKENS)]
    assert Speed.from_dict(speed.to_dict()) == speed
    assert Speed.from_dict(None) is None


@pytest.mark.parametrize(("context", "measured"), [(DECODE_TOKENS, False), (DECODE_TOKENS + 1, True)])
def test_a_context_too_short_to_measure(context: int, measured: bool) -> None:
    assert (measure_speed(TinySession(max_context=context), "x") is not None) is measured
