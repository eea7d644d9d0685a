"""SpareTime: the time that is left for a model that is being opened, beside those that are served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chipwise.serve.turns.turns import Turns

# In all, for one model: a board that gets hot needs its cooler form though emergencies never end.
_PATIENCE_S = 20.0


class SpareTime:
    """Lets the parts of one opening begin, and the steps of its tests run, while no emergency is on its way.

    ``end`` may be called from any thread; from then on nothing is waited for.

    Args:
        turns: Those of the models that are served.
        patience_s: How long it waits, all its waits together; then it goes on beside emergencies.
        clock: The time in seconds.
    """

    def __init__(
        self, turns: Turns, patience_s: float = _PATIENCE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._turns, self._left_s, self._clock = turns, patience_s, clock
        self._over = False

    def pause(self) -> None:
        """Wait until no emergency is on its way: to be called before what takes a core, or stops all threads."""
        started_s = self._clock()
        self._turns.await_calm(self._left_s, self._is_over)
        self._spend_since(started_s)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn of the engines for one step, after all who wait for one."""
        if self._over:
            # An engine that is started again later proves itself while nobody else runs, or everybody waits for it.
            yield
            return
        started_s = self._clock()
        with self._turns.spare(self._left_s, self._is_over):
            self._spend_since(started_s)
            yield

    def end(self) -> None:
        """The model is open, or nobody wants it any more."""
        self._over = True
        self._turns.look_again()

    def _spend_since(self, started_s: float) -> None:
        self._left_s = max(0.0, self._left_s - (self._clock() - started_s))

    def _is_over(self) -> bool:
        return self._over
