from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.errors import InputError
from chipwise.serve.hardware.policy import Policy, PolicySettings
from chipwise.serve.hardware.rung import Variant, ladder
from chipwise.serve.request.priority import Priority
from chipwise.telemetry.reading import Reading, unknown
from chipwise.telemetry.state import HardwareState, compose

RUNGS = ladder(4, (0.8, 0.6))
BLIND = 3
"""The last rung of these that costs no request."""


def state(at_s: float, temp_c: float | None, power_w: float | None = None, *others: Reading) -> HardwareState:
    temp = unknown("temp_c", "C", "zone", "gone") if temp_c is None else Reading("temp_c", temp_c, "C", "zone")
    power = unknown("power_w", "W", "rail", "none") if power_w is None else Reading("power_w", power_w, "W", "rail")
    return compose(at_s, [temp, power, Reading("passive_c", 85.0, "C", "trip"), *others])


def levels(policy: Policy, temps: list[float | None], interval_s: float = 1.0) -> list[int]:
    return [policy.decide(state(n * interval_s, temp)).level for n, temp in enumerate(temps)]


def test_cool_board_is_left_alone() -> None:
    policy = Policy(RUNGS)
    assert set(levels(policy, [25.0, 69.9] * 50)) == {0}
    assert policy.changes == 0


def test_top_of_the_ladder_is_reached_a_guard_band_below_the_trip() -> None:
    top = len(RUNGS) - 1
    assert Policy(RUNGS).decide(state(0, 80.0)).level == top
    assert Policy(RUNGS).decide(state(0, 79.9)).level == top - 1
    assert Policy(RUNGS, PolicySettings(guard_c=0)).decide(state(0, 80.0)).level < top


def test_reasons_say_what_was_read() -> None:
    decision = Policy(RUNGS).decide(state(0, 71.0))
    assert decision.level == 1
    assert decision.reasons == ("71.0 degrees, 3 to guard, 85 not to be passed",)
    assert Policy(RUNGS).decide(state(0, 20.0)).reasons == ()


def test_trip_is_the_users_else_the_boards_else_assumed() -> None:
    cool = state(0, 20.0)
    assert Policy(RUNGS).trip_c(cool) == 85.0
    assert Policy(RUNGS, PolicySettings(trip_c=70.0)).trip_c(cool) == 70.0
    assert Policy(RUNGS).trip_c(compose(0.0, [])) == 75.0


def test_hysteresis_holds_a_rung_until_it_is_cooler_by_more() -> None:
    policy = Policy(RUNGS, PolicySettings(relax_s=30.0))
    assert levels(policy, [71.0, *[69.0] * 200]) == [1] * 201
    assert policy.decide(state(300, 66.9)).level == 0


@given(st.lists(st.one_of(st.none(), st.floats(20, 110)), min_size=1, max_size=300), st.floats(0.2, 4))
@settings(max_examples=60)
def test_changes_keep_their_distance(temps: list[float | None], interval_s: float) -> None:
    chosen = PolicySettings()
    policy, level, changed_s = Policy(RUNGS, chosen), 0, -math.inf
    for n, temp in enumerate(temps):
        now_s = n * interval_s
        found = policy.decide(state(now_s, temp))
        assert not found.rung.limits.sheds(Priority.EMERGENCY)
        if found.level != level:
            assert now_s - changed_s >= chosen.change_s
            if found.level < level:
                assert found.level == level - 1
                assert now_s - changed_s >= chosen.relax_s
            level, changed_s = found.level, now_s


def test_a_temperature_that_swings_about_a_border_is_answered_less_and_less_often() -> None:
    policy = Policy(RUNGS)
    # Any rung cools it well below the border, none warms it well above: the worst case for a ladder.
    temp, level, changed = 65.0, 0, []
    for now_s in range(0, 4 * 3600, 4):
        temp = min(71.0, max(50.0, temp + (1.0 if level == 0 else -1.0)))
        before, level = level, policy.decide(state(now_s, temp)).level
        changed += [now_s] if level != before else []
    hours = [sum(3600 * h <= at < 3600 * (h + 1) for at in changed) for h in range(4)]
    assert hours[0] > hours[3]
    assert hours[3] <= 3600 / (30 * 16) * 2 + 2


def test_unknown_temperature_takes_the_safe_side_and_says_so() -> None:
    policy = Policy(RUNGS)
    assert levels(policy, [40.0, *[None] * 10]) == [0] * 10 + [BLIND]
    decision = policy.decide(state(20.0, None))
    assert decision.level == BLIND
    assert decision.reasons[0] == "the temperature is unknown for 20 s: gone"
    assert decision.unknown == ("temp_c: gone",)
    assert policy.decide(state(21.0, 84.0)).level == len(RUNGS) - 1
    assert policy.decide(state(500.0, None)).level == len(RUNGS) - 1
    assert policy.decide(state(600.0, 30.0)).level == len(RUNGS) - 2


def test_never_known_temperature_takes_the_safe_side_too() -> None:
    assert levels(Policy(RUNGS), [None] * 12)[-1] == BLIND


def test_power_is_planned_on_what_can_be_sustained() -> None:
    policy = Policy(RUNGS, PolicySettings(peak_w=10.0))
    for now_s in range(600):
        assert policy.decide(state(now_s, 30.0, 6.8)).level == 0
    for now_s in range(600, 660):
        # A peak of some seconds is no matter.
        assert policy.decide(state(now_s, 30.0, 9.0 if now_s < 602 else 6.8)).level == 0
    found = [policy.decide(state(now_s, 30.0, 9.0)).level for now_s in range(660, 2660)]
    # No faster than its mean can show what the last rung did, and no further than background work.
    assert found[59] == 1
    assert max(found) == found[-1] == BLIND + 1
    assert RUNGS[BLIND + 1].limits.shed == {Priority.BACKGROUND}
    assert policy.decide(state(2700, 30.0, 9.0)).reasons[0].endswith("W on average, 7.0 planned")


def test_power_without_a_peak_or_a_meter_decides_nothing() -> None:
    assert Policy(RUNGS).decide(state(0, 30.0, 99.0)).level == 0
    decision = Policy(RUNGS, PolicySettings(peak_w=10.0)).decide(state(0, 30.0))
    assert (decision.level, decision.unknown) == (0, ("power_w: none",))


def test_firmware_that_throttles() -> None:
    throttled = Reading("throttled", 1.0, "1", "vcgencmd", note="now: under-voltage")
    decision = Policy(RUNGS).decide(state(0, 30.0, None, throttled))
    assert (decision.level, decision.reasons) == (1, ("the firmware throttles (now: under-voltage)",))


@pytest.mark.parametrize(
    "wrong", [{"guard_c": -1}, {"guard_c": math.nan}, {"span_c": 0}, {"sustained": 1.1}, {"peak_w": 0}]
)
def test_settings_that_hold_nothing(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        PolicySettings(**wrong)


def test_another_ladder_is_gone_on_with_where_as_much_is_turned_away() -> None:
    variants = [Variant(name, "some") for name in ("cool", "cooler")]
    long, short = ladder(4, (0.8, 0.6), variants), ladder(4)
    for temp_c, before, after in (
        (20.0, "as asked", "as asked"),
        (71.0, "at most 2 at once", "at most 2 at once"),
        (76.0, "variant cooler", "at most 2 at once"),
        (77.5, "no background work", "no background work"),
        (99.0, "emergencies only", "emergencies only"),
    ):
        policy = Policy(long)
        assert policy.decide(state(0, temp_c)).rung.name == before
        policy.change_rungs(short)
        assert policy.rungs == short
        assert policy.rungs[policy._level].name == after
        policy.change_rungs(long)
        shed = {rung.name: rung.limits.shed for rung in long}
        assert policy.rungs[policy._level].limits.shed == shed[before]
    assert policy.changes == 1, "no change of what is done"


def test_where_it_is_blind_the_variant_answers() -> None:
    policy = Policy(ladder(4, (), [Variant("cool", "some")]))
    policy.decide(state(0, None))
    assert policy.decide(state(20, None)).rung.name == "variant cool"
