"""Hardware: the board under a server, watched, and what its policy lets the scheduler do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from chipwise.serve.clock_cap import ClockCap
from chipwise.serve.limits import Limits
from chipwise.serve.policy import Decision, Policy
from chipwise.telemetry import BoardMeters, BoardMonitor, HardwareState

_logger = logging.getLogger(__name__)
_NO_LIMITS = Limits()
# A state this old says nothing about now: the thread that reads has stopped.
_STALE_S = 10.0


class Hardware:
    """Watches a board and decides at every sample. ``limits`` may be asked from any thread.

    Args:
        name: What board it is, for people.
        meters: How it is read.
        policy: What decides; None to look on only.
        why_no_policy: Why there is none.
        clock_cap: Sets the clock that the policy asks for; None to leave clocks alone.
        clock: The time in seconds.
    """

    def __init__(
        self,
        name: str,
        meters: BoardMeters,
        policy: Policy | None,
        *,
        why_no_policy: str = "",
        clock_cap: ClockCap | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.why_no_policy = why_no_policy
        self.decision: Decision | None = None
        """The latest decision; None without a policy."""
        self._policy = policy
        self._clock_cap = clock_cap
        self._clock = clock
        self._limits = _NO_LIMITS
        self._monitor = BoardMonitor(meters, self._decide, clock=clock)
        self._decide(self._monitor.state)

    @property
    def state(self) -> HardwareState:
        """The latest state."""
        return self._monitor.state

    @property
    def age_s(self) -> float:
        """How old it is."""
        return self._clock() - self.state.at_s

    @property
    def stale(self) -> bool:
        """Whether it is too old to be believed."""
        return self.age_s > _STALE_S

    @property
    def changes(self) -> int:
        """How often the policy has changed its rung."""
        return 0 if self._policy is None else self._policy.changes

    def limits(self) -> Limits:
        """What the scheduler may do now."""
        return self._limits

    def sample(self) -> HardwareState:
        """Read and decide now, in the caller's thread; for time that is not real."""
        return self._monitor.sample()

    def start(self) -> None:
        """Sample in a thread."""
        self._monitor.start()

    def stop(self) -> None:
        """End the thread, and let the clock go."""
        self._monitor.stop()
        if self._clock_cap is not None:
            self._clock_cap.close()

    def _decide(self, state: HardwareState) -> None:
        if self._policy is None:
            return
        before, decision = self.decision, self._policy.decide(state)
        self.decision, self._limits = decision, decision.rung.limits
        if self._clock_cap is not None:
            self._clock_cap.set(decision.rung.clock_ratio)
        if before is not None and before.level != decision.level:
            _logger.warning(
                "the board's policy goes from %r to %r: %s",
                before.rung.name,
                decision.rung.name,
                "; ".join(decision.reasons) or "it is cool enough",
            )
