from __future__ import annotations

from chipwise.target.host.timing import Timing, repeat


def test_work_is_run_once_more_than_it_is_timed() -> None:
    runs: list[int] = []
    timing = repeat(lambda: runs.append(1), budget_s=0.0, at_least=3)
    assert timing.n == 3
    assert len(runs) == 4
    assert 0 < timing.best_s <= timing.median_s


def test_the_number_of_runs_is_bounded() -> None:
    assert repeat(lambda: None, budget_s=60.0, at_most=5).n == 5


def test_note_tells_runs_and_spread() -> None:
    assert Timing(1.0, 1.25, 7).note() == "best of 7 runs, the median took 25 % longer"
