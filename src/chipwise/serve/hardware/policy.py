"""Policy: from a board's heat and power to what serving may do. Pure: it knows no clock, board or thread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chipwise.errors import InputError
from chipwise.serve.hardware.frozen import FrozenWatch
from chipwise.serve.hardware.rung import Rung
from chipwise.telemetry import HardwareState

# Where a board does not say where it throttles: practitioners report clocks that fall past 75 degrees.
_ASSUMED_TRIP_C = 75.0
# The longest wait for a rung that was left too early again and again, over the ordinary wait.
_MOST_PATIENCE = 16.0


@dataclass(frozen=True)
class PolicySettings:
    """How the policy decides.

    Attributes:
        trip_c: Temperature never to be passed; None for the board's own passive trip, else 75.
        guard_c: What sensors may be wrong by: every temperature is taken to be this much higher.
        lead_c: How far below the trip the top of the ladder is reached: heat goes on rising until a change takes hold.
        span_c: How far below the top the ladder begins.
        hysteresis_c: How much cooler it must be than where a rung was taken, for it to be left.
        change_s: The least time between two changes.
        relax_s: The least time on a rung before a lower one is tried, one at a time. Each time that turns out to be
            too early it doubles, up to 16 times.
        unknown_s: How long the temperature may be unknown before the safe side is taken.
        frozen_s: How long no sensor may move while the load does, before they are taken to be stuck.
        peak_w: What the board may draw at most; None if that is not known, and then power decides nothing.
        sustained: Share of ``peak_w`` that is planned with.
        power_mean_s: Over how long power is averaged: peaks that are shorter are no matter.
    """

    trip_c: float | None = None
    guard_c: float = 3.0
    lead_c: float = 2.0
    span_c: float = 10.0
    hysteresis_c: float = 3.0
    change_s: float = 5.0
    relax_s: float = 30.0
    unknown_s: float = 10.0
    frozen_s: float = 300.0
    peak_w: float | None = None
    sustained: float = 0.7
    power_mean_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse settings under which nothing would be held.

        Raises:
            InputError: A number is out of its range.
        """
        for name in ("guard_c", "lead_c", "hysteresis_c", "change_s", "relax_s", "unknown_s", "frozen_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}", remedy="give a number of at least 0")
        for name in ("span_c", "power_mean_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}", remedy="give a number above 0")
        if not 0 < self.sustained <= 1:
            raise InputError(f"sustained is {self.sustained}", remedy="give a share above 0, of at most 1")
        if self.peak_w is not None and not 0 < self.peak_w < math.inf:
            raise InputError(f"peak_w is {self.peak_w}", remedy="give watts above 0")


@dataclass(frozen=True)
class Decision:
    """What holds until the next one.

    Attributes:
        level: Number of the rung, from 0.
        rung: The rung.
        reasons: Why not a lower one; empty on the lowest.
        unknown: What the policy wanted to know and does not.
    """

    level: int
    rung: Rung
    reasons: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Policy:
    """Climbs a ladder by temperature and power, with hysteresis and a limit on the rate of changes.

    Args:
        rungs: The ladder, from `chipwise.serve.hardware.rung.ladder`.
        settings: How it decides.
    """

    def __init__(self, rungs: Sequence[Rung], settings: PolicySettings | None = None) -> None:
        self._settings = settings or PolicySettings()
        self._level = 0
        self._take(rungs)
        self._changed_s = -math.inf
        self._relaxed_s = -math.inf
        self._patience = 1.0
        self._watch = FrozenWatch(self._settings.frozen_s)
        self._frozen_s: float | None = None
        self._known_s: float | None = None
        self._power_w: float | None = None
        self._last_s: float | None = None
        self.changes = 0
        """Changes of the rung since the start."""

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The ladder."""
        return self._rungs

    def change_rungs(self, rungs: Sequence[Rung]) -> None:
        """Go on with another ladder, on the rung that turns away as much as the one it is on, or on the nearest."""
        above = self._top - self._level if self._rungs[self._level].costs_requests else None
        self._take(rungs)
        self._level = min(self._level, self._blind) if above is None else self._top - above

    def decide(self, state: HardwareState) -> Decision:
        """What to do now. States come in the order of their times."""
        now_s = state.at_s
        if self._known_s is None:
            self._known_s = now_s
        self._average(state)
        self._frozen_s = self._watch.frozen_s(state)
        self._last_s = now_s
        reasons: list[str] = []
        wanted = max(self._by_heat(state, reasons), self._by_power(now_s, reasons), self._by_firmware(state, reasons))
        calm = max(self._by_heat(state, [], self._settings.hysteresis_c), self._by_power(now_s, [], 0.9), wanted)
        if wanted > self._level:
            self._climb(wanted, now_s)
        elif calm < self._level:
            self._descend(now_s)
        unknown = tuple(
            f"{reading.name}: {reading.unknown}"
            for reading in (state.temp_c, *([state.power_w] if self._settings.peak_w is not None else []))
            if reading.value is None
        )
        if self._level > wanted:
            reasons.append(f"held until it is {self._settings.hysteresis_c:g} degrees cooler, and for a while")
        return Decision(self._level, self._rungs[self._level], tuple(reasons) if self._level else (), unknown)

    def trip_c(self, state: HardwareState) -> float:
        """The temperature never to be passed."""
        if self._settings.trip_c is not None:
            return self._settings.trip_c
        return _ASSUMED_TRIP_C if state.passive_c.value is None else state.passive_c.value

    def _take(self, rungs: Sequence[Rung]) -> None:
        self._rungs = tuple(rungs)
        self._top = len(self._rungs) - 1
        # All that costs no request: where it is safe to be blind.
        self._blind = max(n for n, rung in enumerate(self._rungs) if not rung.costs_requests)
        # Power is a plan, heat a danger: for a plan no more than background work is turned away.
        self._thrifty = min(self._top, self._blind + 1)

    def _by_heat(self, state: HardwareState, reasons: list[str], hysteresis_c: float = 0.0) -> int:
        """The rung that the temperature asks for; the reason is added if it is not the lowest."""
        settings, temp_c = self._settings, state.temp_c.value
        if temp_c is None:
            blind_s = state.at_s - (self._known_s or 0.0)
            if blind_s < settings.unknown_s and self._known_s is not None:
                return self._level
            reasons.append(f"the temperature is unknown for {blind_s:.0f} s: {state.temp_c.unknown}")
            return max(self._level, self._blind)
        self._known_s = state.at_s
        if self._frozen_s is not None:
            reasons.append(f"no sensor has moved for {self._frozen_s:.0f} s while the load did: they are stuck")
            return max(self._level, self._blind)
        trip_c = self.trip_c(state)
        begin_c = trip_c - settings.lead_c - settings.span_c
        above_c = temp_c + settings.guard_c + hysteresis_c - begin_c
        if above_c <= 0:
            return 0
        level = min(self._top, 1 + math.floor(above_c / settings.span_c * (self._top - 1) + 1e-9))
        reasons.append(f"{temp_c:.1f} degrees, {settings.guard_c:g} to guard, {trip_c:g} not to be passed")
        return level

    def _by_power(self, now_s: float, reasons: list[str], share: float = 1.0) -> int:
        """One rung up while the mean power is above the plan, as soon as the mean can show what the last one did."""
        settings = self._settings
        if settings.peak_w is None or self._power_w is None:
            return 0
        plan_w = settings.peak_w * settings.sustained
        if self._power_w > plan_w:
            reasons.append(f"{self._power_w:.1f} W on average, {plan_w:.1f} planned")
            shown = now_s - self._changed_s >= settings.power_mean_s
            return max(self._level, min(self._thrifty, self._level + 1)) if shown else self._level
        return self._level if self._power_w > share * plan_w else 0

    def _by_firmware(self, state: HardwareState, reasons: list[str]) -> int:
        """One rung up while the firmware throttles by itself."""
        if not state.throttled.value:
            return 0
        reasons.append(f"the firmware throttles ({state.throttled.note})")
        return max(self._level, min(self._blind, self._level + 1))

    def _average(self, state: HardwareState) -> None:
        """The mean power, older values counting less and less."""
        power_w = state.power_w.value
        if power_w is None:
            self._power_w = None
        elif self._power_w is None or self._last_s is None:
            self._power_w = power_w
        else:
            weight = -math.expm1(-(state.at_s - self._last_s) / self._settings.power_mean_s)
            self._power_w += weight * (power_w - self._power_w)

    def _climb(self, level: int, now_s: float) -> None:
        if now_s - self._changed_s < self._settings.change_s:
            return
        # A rung that was left and is needed again at once was left too early.
        early = now_s - self._relaxed_s < 2 * self._wait_s()
        self._patience = min(_MOST_PATIENCE, self._patience * 2) if early else self._patience
        self._change(level, now_s)

    def _descend(self, now_s: float) -> None:
        if now_s - self._changed_s < self._wait_s():
            return
        if now_s - self._relaxed_s > 4 * self._wait_s():
            self._patience = max(1.0, self._patience / 2)
        self._relaxed_s = now_s
        self._change(self._level - 1, now_s)

    def _wait_s(self) -> float:
        return max(self._settings.change_s, self._settings.relax_s * self._patience)

    def _change(self, level: int, now_s: float) -> None:
        self._level = level
        self._changed_s = now_s
        self.changes += 1
