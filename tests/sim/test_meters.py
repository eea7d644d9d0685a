"""What the meters read of a virtual board is the state of its model, to the resolution of the board's format."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chipwise.sim import Activity, FolderBoard, RealTime, VirtualBoard, VirtualFiles, board_names, load_spec
from chipwise.sim.formats import cap_path
from chipwise.telemetry import BoardFiles, BoardMeters, FolderFiles, HardwareState, Tree

SHARES = st.floats(0, 1)


def read(files: BoardFiles, timeout_s: float | None = None) -> HardwareState:
    return BoardMeters(Tree(files, timeout_s)).read(0.0)


def check(state: HardwareState, board: VirtualBoard) -> None:
    details = {reading.name: reading.value for reading in state.details}
    for zone, temp_c in board.temps_c.items():
        name = zone if zone.endswith("-thermal") else f"{zone}-thermal"
        assert details[f"temp_c/{name}"] == pytest.approx(temp_c, abs=0.00051)
    assert state.temp_c.value == pytest.approx(max(board.temps_c.values()), abs=0.00051)
    assert state.passive_c.value == board.spec.parameters.passive_c.value
    assert state.critical_c.value == board.spec.parameters.critical_c.value
    assert state.clock_ratio.value == pytest.approx(board.clock_ratio)
    load = state.npu_load if board.spec.format == "rockchip" else state.gpu_load
    assert load.value == pytest.approx(board.accelerator_load, abs=0.00501)
    total = int(board.spec.parameters.memory_bytes.value)
    assert state.free_bytes.value == pytest.approx(total - board.used_bytes, abs=1024)
    if board.spec.format == "jetson":
        assert state.power_w.value == pytest.approx(board.power_w, abs=0.00051)
    else:
        assert state.power_w.value is None


@pytest.mark.parametrize("name", board_names())
@given(
    air_c=st.floats(-20, 70),
    parts=st.lists(st.tuples(st.floats(0.01, 30), SHARES, SHARES), min_size=1, max_size=4),
    used_bytes=st.integers(0, 7 << 30),
    cap_hz=st.floats(1e8, 1.2e9),
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_memory_and_in_a_folder(name, air_c, parts, used_bytes, cap_hz, tmp_path: Path) -> None:
    board = VirtualBoard(load_spec(name), air_c)
    board.used_bytes = used_bytes
    files, folder = VirtualFiles(board), FolderBoard(board, tmp_path)
    board.cap_clock(cap_hz)
    folder.write()
    for duration_s, accelerator, cpu in parts:
        folder.advance(duration_s, Activity(accelerator, cpu))
    check(read(files), board)
    check(read(FolderFiles(tmp_path)), board)


def test_a_clock_that_is_written_is_obeyed(tmp_path: Path) -> None:
    folder = FolderBoard(VirtualBoard(load_spec("rk3588")), tmp_path)
    (tmp_path / cap_path(folder.board)).write_text("650000000\n")
    folder.advance(1)
    assert read(FolderFiles(tmp_path)).clock_ratio.value == 0.6
    (tmp_path / cap_path(folder.board)).write_text("fast\n")
    folder.advance(1)
    assert folder.board.clock_ratio == 0.6
    files = VirtualFiles(folder.board)
    files.write(cap_path(folder.board), "1000000000")
    assert folder.board.clock_ratio == 1.0
    with pytest.raises(OSError, match="Invalid argument"):
        files.write(cap_path(folder.board), "fast")
    with pytest.raises(PermissionError):
        files.write("proc/meminfo", "1")


def test_faults(tmp_path: Path) -> None:
    board = VirtualBoard(load_spec("rk3588"))
    files = VirtualFiles(board)
    npu = files.path_of("npu-thermal")
    meters = BoardMeters(Tree(files, timeout_s=0.05))

    def npu_zone() -> tuple[float | None, str]:
        found = next(r for r in meters.read(0.0).details if r.name == "temp_c/npu-thermal")
        return found.value, found.unknown

    files.freeze(npu)
    board.advance(100, Activity(1.0))
    assert npu_zone() == (25.0, "")
    files.heal(npu)
    warm, _ = npu_zone()
    assert warm == pytest.approx(board.temps_c["npu-thermal"], abs=0.001)
    files.vanish(npu)
    assert npu_zone() == (None, "not there")
    files.heal(npu)
    files.fail(npu, errno.ETIMEDOUT)
    assert npu_zone() == (None, "Connection timed out")
    files.heal(npu)
    files.hang(npu)
    assert npu_zone()[1] == "the read hangs (given up after 0.05 s)"
    assert npu_zone()[1] == "an earlier read of it still hangs"
    files.heal(npu)
    end = time.monotonic() + 5
    while any(thread.name == "chipwise-meters" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.005)
    assert npu_zone()[0] == warm


def test_real_time(tmp_path: Path) -> None:
    folder = FolderBoard(VirtualBoard(load_spec("orin-nano")), tmp_path)
    live = RealTime(folder, lambda: Activity(1.0), interval_s=0.01)
    live.start()
    end = time.monotonic() + 5
    while folder.board.now_s < 1.05:
        assert time.monotonic() < end
        time.sleep(0.01)
    live.stop()
    state = read(FolderFiles(tmp_path))
    assert state.gpu_load.value == 1.0
    assert state.temp_c.value is not None
    assert state.temp_c.value > 25.0
