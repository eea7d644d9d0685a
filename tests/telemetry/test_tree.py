from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.files import FolderFiles
from chipwise.telemetry.tree import Text, Tree
from tests.telemetry.fakes import MemoryFiles


def meter_threads() -> int:
    return sum(thread.name == "chipwise-meters" for thread in threading.enumerate())


def wait_for_no_threads() -> None:
    end = time.monotonic() + 5
    while meter_threads():
        assert time.monotonic() < end, "a thread that read is left over"
        time.sleep(0.005)


def test_errors_are_said() -> None:
    errors = {number: OSError(number, "x") for number in (errno.EINVAL, errno.EAGAIN, errno.ENODATA, errno.ETIMEDOUT)}
    files = MemoryFiles({f"f{number}": error for number, error in errors.items()} | {"good": " 1 \n", "empty": "\n"})
    texts = Tree(files).read([*files.files, "none"])
    assert texts["good"] == Text("1")
    assert {texts[f"f{number}"].why for number in errors} == {os.strerror(number) for number in errors}
    assert (texts["none"].why, texts["empty"].why) == ("not there", "is empty")
    wait_for_no_threads()


def test_a_read_that_hangs_costs_its_own_value_only(tmp_path: Path) -> None:
    for n, kind in enumerate(("cpu-thermal", "gpu-thermal", "tj-thermal")):
        zone = tmp_path / f"sys/class/thermal/thermal_zone{n}"
        zone.mkdir(parents=True)
        (zone / "type").write_text(kind)
        # Nobody writes into the pipe: opening it to read hangs, as an offline zone of an Orin does.
        os.mkfifo(zone / "temp") if kind == "gpu-thermal" else (zone / "temp").write_text("50000")
    meters = BoardMeters(Tree(FolderFiles(tmp_path), timeout_s=0.05))
    for sample in range(5):
        started_s = time.monotonic()
        state = meters.read(0.0)
        found = {reading.name: reading for reading in state.details}
        assert state.temp_c.value == 50.0
        assert found["temp_c/tj-thermal"].value == 50.0
        assert ("given up after" if sample == 0 else "still hangs") in found["temp_c/gpu-thermal"].unknown
        assert time.monotonic() - started_s < 2
    assert meter_threads() == 1
    pipe = os.open(tmp_path / "sys/class/thermal/thermal_zone1/temp", os.O_WRONLY)
    os.write(pipe, b"61000")
    os.close(pipe)
    wait_for_no_threads()


class HangingFiles:
    """Every read hangs until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def read(self, path: str) -> bytes:
        self.let_go.wait(10)
        return path.encode()

    def names(self, folder: str) -> tuple[str, ...]:
        return ()


def test_threads_that_hang_are_few_and_end() -> None:
    files, paths = HangingFiles(), [f"f{n}" for n in range(50)]
    tree = Tree(files, timeout_s=0.01)
    for _ in range(3):
        texts = tree.read(paths)
        assert set(texts) == set(paths)
        assert all(text.content is None for text in texts.values())
        assert meter_threads() <= 8
    assert "reads of 8 other files hang" in texts["f49"].why
    files.let_go.set()
    wait_for_no_threads()
    assert tree.read(["f0", "f49"]) == {"f0": Text("f0"), "f49": Text("f49")}
    wait_for_no_threads()
