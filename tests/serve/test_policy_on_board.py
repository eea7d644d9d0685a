"""The policy in a closed loop with a virtual board's heat."""

from __future__ import annotations

import errno
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.serve.hardware.policy import Decision, Policy, PolicySettings
from chipwise.serve.hardware.rung import Rung, ladder
from chipwise.serve.request.priority import Priority
from chipwise.sim import Activity, VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import BoardMeters, Tree
from chipwise.telemetry.files import BoardFiles

SLOTS = 4
RATIOS = (0.9, 0.8, 0.7, 0.6)
TRIP_C = 85.0


class WrongSensors:
    """Every sensor of a board reads too high, or too low, by the same error."""

    def __init__(self, files: BoardFiles, error_c: float) -> None:
        self._files, self._error_c = files, error_c

    def read(self, path: str) -> bytes:
        said = self._files.read(path)
        return str(int(said) + round(self._error_c * 1000)).encode() if path.endswith("/temp") else said

    def names(self, folder: str) -> tuple[str, ...]:
        return self._files.names(folder)


def load(rung: Rung) -> Activity:
    """All slots are always wanted. A smaller batch computes less; with emergencies only the chip rests between them."""
    if Priority.INTERACTIVE in rung.limits.shed:
        return Activity(0.3, 0.2)
    rows = rung.limits.max_batch or SLOTS
    return Activity(0.5 + 0.5 * rows / SLOTS, 0.4)


def run(board: VirtualBoard, files: BoardFiles, parts: list[tuple[int, bool]], policy: Policy | None) -> list[Decision]:
    """Load and rest, for so many seconds each; a decision a second."""
    meters = BoardMeters(Tree(files, timeout_s=None))
    decisions = [Decision(0, ladder(SLOTS)[0])]
    for duration_s, busy in parts:
        for _ in range(duration_s):
            board.advance(1.0, load(decisions[-1].rung) if busy else Activity())
            if policy is not None:
                decisions.append(policy.decide(meters.read(board.now_s)))
                ratio = decisions[-1].rung.clock_ratio
                board.cap_clock(None if ratio is None else ratio * board.clocks_hz[-1])
    return decisions


def changes(decisions: list[Decision]) -> int:
    return sum(a.level != b.level for a, b in pairwise(decisions))


@pytest.mark.parametrize("name", ["rk3588", "rk3576", "orin-nano"])
@given(
    air_c=st.floats(0, 45),
    error_c=st.floats(-3, 3),
    parts=st.lists(st.tuples(st.integers(1, 500), st.booleans()), min_size=1, max_size=4),
)
@settings(max_examples=6)
def test_worst_load_never_passes_the_trip(
    name: str, air_c: float, error_c: float, parts: list[tuple[int, bool]]
) -> None:
    board = VirtualBoard(load_spec(name), air_c)
    run(board, WrongSensors(VirtualFiles(board), error_c), parts, Policy(ladder(SLOTS, RATIOS)))
    assert board.peak_c < TRIP_C
    assert board.throttled_s == 0, "the kernel had to throttle"


@pytest.mark.slow
@pytest.mark.parametrize("ratios", [RATIOS, ()], ids=["with clocks", "without"])
def test_hours_of_the_worst_load_in_hot_air(ratios: tuple[float, ...]) -> None:
    alone, held = (VirtualBoard(load_spec("rk3588"), 45.0) for _ in range(2))
    run(alone, VirtualFiles(alone), [(3600, True)], None)
    assert alone.peak_c > TRIP_C, "the load is not the worst"
    files = WrongSensors(VirtualFiles(held), -3.0)
    decisions = run(held, files, [(3 * 3600, True)], Policy(ladder(SLOTS, ratios)))
    assert held.peak_c < TRIP_C
    assert changes(decisions[-3600:]) <= 60


def test_lost_sensors_do_not_cook_the_board() -> None:
    board = VirtualBoard(load_spec("rk3588"), 35.0)
    files = VirtualFiles(board)
    policy = Policy(ladder(SLOTS, RATIOS), PolicySettings())
    run(board, files, [(600, False)], policy)
    for zone in board.spec.zones:
        files.fail(files.path_of(zone), errno.EAGAIN)
    decisions = run(board, files, [(3600, True)], policy)
    assert decisions[-1].rung.name == "clock at 60%"
    assert "unknown" in decisions[-1].reasons[0]
    assert board.peak_c < TRIP_C


def test_sensors_that_are_stuck_do_not_cook_the_board() -> None:
    board = VirtualBoard(load_spec("rk3588"), 35.0)
    files = VirtualFiles(board)
    policy = Policy(ladder(SLOTS, RATIOS))
    run(board, files, [(600, False)], policy)
    for zone in board.spec.zones:
        files.freeze(files.path_of(zone))
    decisions = run(board, files, [(2700, True)], policy)
    assert decisions[-1].rung.name == "clock at 60%"
    assert "they are stuck" in decisions[-1].reasons[0]
    assert board.peak_c < TRIP_C
    for zone in board.spec.zones:
        files.heal(files.path_of(zone))
    assert "stuck" not in run(board, files, [(2, True)], policy)[-1].reasons[0]


def test_calm_and_steady_boards_are_not_stuck() -> None:
    board = VirtualBoard(load_spec("rk3588"), 25.0)
    files = VirtualFiles(board)
    for zone in board.spec.zones:
        files.freeze(files.path_of(zone))
    assert {decision.level for decision in run(board, files, [(1200, False)], Policy(ladder(SLOTS)))} == {0}
