"""Hardware: the board under a server, watched, and what its policy lets the scheduler do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from chipwise.serve.hardware.clock_cap import ClockCap
from chipwise.serve.hardware.policy import Decision, Policy
from chipwise.serve.hardware.rung import Rung, Variant
from chipwise.serve.request.limits import Limits
from chipwise.telemetry import BoardMeters, BoardMonitor, HardwareState

_logger = logging.getLogger(__name__)
_NO_LIMITS = Limits()
# A state this old says nothing about now: the thread that reads has stopped.
_STALE_S = 10.0


def _nothing(variant: str | None) -> None:
    """Tells nobody."""


class Hardware:
    """Watches a board and decides at every sample. ``limits`` may be asked from any thread.

    Args:
        name: What board it is, for people.
        meters: How it is read.
        policy: What decides; None to look on only.
        why_no_policy: Why there is none.
        rungs: The policy's ladder, from the variants of the model; None if it is always the same.
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
        rungs: Callable[[Sequence[Variant]], Sequence[Rung]] | None = None,
        clock_cap: ClockCap | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.why_no_policy = why_no_policy
        self.decision: Decision | None = None
        """The latest decision; None without a policy."""
        self._policy = policy
        self._rungs = rungs
        self._want: Callable[[str | None], None] = _nothing
        self._clock_cap = clock_cap
        # The board's thread decides; others exchange the ladder, and ask who is to answer.
        self._lock = threading.RLock()
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

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The policy's ladder; empty without a policy."""
        return () if self._policy is None else self._policy.rungs

    def offer(self, variants: Sequence[Variant]) -> None:
        """Let the policy choose from these forms of the model from now on."""
        if self._policy is None or self._rungs is None or (rungs := tuple(self._rungs(variants))) == self.rungs:
            return
        with self._lock:
            self._policy.change_rungs(rungs)
        self._decide(self.state)

    def follow(self, want: Callable[[str | None], None]) -> None:
        """Tell somebody, now and at every sample, which variant is to answer; None for the form of the first."""
        with self._lock:
            self._want = want
            self._tell()

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

    def _tell(self) -> None:
        if self.decision is not None:
            variant = self.decision.rung.variant
            self._want(None if variant is None else variant.name)

    def _decide(self, state: HardwareState) -> None:
        if self._policy is None:
            return
        with self._lock:
            self._follow_policy(self._policy, state)

    def _follow_policy(self, policy: Policy, state: HardwareState) -> None:
        before, decision = self.decision, policy.decide(state)
        self.decision, self._limits = decision, decision.rung.limits
        self._tell()
        if self._clock_cap is not None:
            self._clock_cap.set(decision.rung.clock_ratio)
        if before is not None and before.rung.name != decision.rung.name:
            _logger.warning(
                "the board's policy goes from %r to %r: %s",
                before.rung.name,
                decision.rung.name,
                "; ".join(decision.reasons) or "it is cool enough",
            )
