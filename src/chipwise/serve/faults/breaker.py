"""Breaker: decides from faults whether an engine is still asked. Pure: the time is passed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

State = Literal["closed", "half_open", "open"]

STATES: tuple[State, ...] = ("closed", "half_open", "open")
"""The states, from serving to not serving."""


@dataclass(frozen=True)
class BreakerRules:
    """When a breaker opens, and how it finds back.

    Attributes:
        faults: So many faults within ``window_s`` open it.
        window_s: Faults older than this are forgotten, and so are earlier openings once nothing failed for as long.
        first_wait_s: How long it stays open the first time.
        growth: How much longer it stays open each further time.
        longest_wait_s: The longest it stays open.
        probe_s: How long a probe may take; then another one is sent.
    """

    faults: int = 3
    window_s: float = 300.0
    first_wait_s: float = 10.0
    growth: float = 2.0
    longest_wait_s: float = 600.0
    probe_s: float = 60.0


class Breaker:
    """Closed: every request goes to the engine. Open: none does. Half open: one at a time does, as a probe.

    It opens at repeated faults. After a time, which grows each time that was too early, one request tries the engine:
    if that is answered, the breaker closes; if it meets a fault, it opens again.
    """

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self._rules = rules or BreakerRules()
        self._faults: deque[float] = deque(maxlen=self._rules.faults)
        self._last_fault_s: float | None = None
        self._openings = 0
        self._opened_s = 0.0
        self._probe_since_s: float | None = None
        self.state: State = "closed"

    @property
    def wait_s(self) -> float:
        """How long it stays open, this time or the last."""
        rules, grown = self._rules, max(0, self._openings - 1)
        # Beyond this the power would overflow long after it has passed the limit.
        return min(rules.longest_wait_s, rules.first_wait_s * rules.growth ** min(grown, 64))

    def allows(self, now_s: float) -> bool:
        """Whether the next request goes to the engine; if half open, it is the probe then."""
        if self.state == "open" and now_s - self._opened_s >= self.wait_s:
            self.state, self._probe_since_s = "half_open", None
        if self.state == "half_open":
            probing = self._probe_since_s is not None and now_s - self._probe_since_s < self._rules.probe_s
            if not probing:
                self._probe_since_s = now_s
            return not probing
        return self.state == "closed"

    def faulted(self, now_s: float) -> None:
        """A step of the engine failed, or gave nonsense."""
        calm_s = self._rules.window_s
        if self.state == "closed" and (self._last_fault_s is None or now_s - self._last_fault_s >= calm_s):
            self._openings = 0
        self._last_fault_s = now_s
        if self.state == "half_open":
            self._open(now_s)
        elif self.state == "closed":
            self._faults.append(now_s)
            if len(self._faults) == self._rules.faults and now_s - self._faults[0] <= calm_s:
                self._open(now_s)

    def answered(self) -> None:
        """The engine took a request to its end."""
        if self.state == "half_open":
            self.state = "closed"
            self._faults.clear()

    def _open(self, now_s: float) -> None:
        self.state, self._opened_s = "open", now_s
        self._openings += 1
        self._faults.clear()
