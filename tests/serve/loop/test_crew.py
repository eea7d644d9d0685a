from __future__ import annotations

from collections.abc import Callable

from chipwise.errors import ChipwiseError, UnavailableError
from chipwise.serve.loop.crew import Crew


class Fake:
    """A worker that is idle when it is told to be."""

    def __init__(self, *, healthy: bool = True, ends: bool = True) -> None:
        self.healthy, self._ends = healthy, ends
        self.draining = self.started = False
        self.idle: Callable[[], None] | None = None
        self.error: ChipwiseError | None = None

    def start(self) -> None:
        self.started = True

    def drain(self, when_idle: Callable[[], None]) -> None:
        self.draining, self.idle = True, when_idle

    def abort(self, error: ChipwiseError) -> None:
        self.error = error

    def stop(self, timeout_s: float) -> bool:
        return self._ends


def test_a_crew_is_idle_when_the_last_is() -> None:
    workers, calls = [Fake(), Fake(), Fake()], []
    crew = Crew(workers)
    crew.start()
    assert all(worker.started for worker in workers)
    assert not crew.draining
    crew.drain(lambda: calls.append("idle"))
    assert crew.draining
    for worker in workers:
        assert not calls
        worker.idle()
    assert calls == ["idle"]


def test_a_crew_is_as_well_as_its_weakest_and_ends_when_all_do() -> None:
    assert Crew([Fake(), Fake()]).healthy
    assert not Crew([Fake(), Fake(healthy=False)]).healthy
    slow = Fake(ends=False)
    crew = Crew([slow, Fake()])
    assert not crew.stop(1)
    error = UnavailableError("over")
    crew.abort(error)
    assert slow.error is error
