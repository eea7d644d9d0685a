from __future__ import annotations

import logging

import pytest

from chipwise.errors import InputError
from chipwise.serve.hardware.clock_cap import ClockCap
from chipwise.sim import VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import Tree
from tests.telemetry.fakes import MemoryFiles


def cap_on_board() -> tuple[ClockCap, VirtualBoard, VirtualFiles]:
    board = VirtualBoard(load_spec("rk3588"))
    files = VirtualFiles(board)
    return ClockCap(Tree(files, timeout_s=None), files.write), board, files


def test_clock_is_held_and_let_go() -> None:
    cap, board, _ = cap_on_board()
    assert cap.ratios(0.75) == (0.8, 0.9)
    for ratio, clock_ratio in ((0.8, 0.8), (0.79, 0.7), (0.01, 0.3), (None, 1.0), (0.6, 0.6)):
        cap.set(ratio)
        assert board.clock_ratio == clock_ratio
    cap.close()
    assert board.clock_ratio == 1.0


def test_what_was_there_is_put_back() -> None:
    board = VirtualBoard(load_spec("rk3588"))
    board.cap_clock(900e6)
    files = VirtualFiles(board)
    cap = ClockCap(Tree(files, timeout_s=None), files.write)
    assert board.clock_ratio == 0.9
    cap.set(0.6)
    cap.set(None)
    assert board.clock_ratio == 0.9
    cap.close()
    assert board.clock_ratio == 0.9


def refuse(path: str, content: str) -> None:
    raise PermissionError(13, "Permission denied", path)


def test_a_clock_that_may_not_be_set_is_refused_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    _, board, files = cap_on_board()
    with pytest.raises(InputError, match=r"27700000|fdab0000\.npu/max_freq: the clock cannot be set \(Permission"):
        ClockCap(Tree(files, timeout_s=None), refuse)
    with pytest.raises(InputError, match="lists its clocks; serve without --clock-floor"):
        ClockCap(Tree(MemoryFiles({"proc/meminfo": "x"}), timeout_s=None), files.write)
    allowed = [True]
    cap = ClockCap(Tree(files, timeout_s=None), lambda p, c: files.write(p, c) if allowed[0] else refuse(p, c))
    allowed[0] = False
    with caplog.at_level(logging.WARNING):
        cap.set(0.6)
    assert "could not be set" in caplog.text
    assert board.clock_ratio == 1.0
    cap.close()
