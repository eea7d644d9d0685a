from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.programs import LiveFiles
from chipwise.telemetry.tree import Tree

PROGRAMS = {
    "tegrastats": 'echo "GR3D_FREQ 7%@[305] gpu@49.5C VDD_IN 5251mW/8535mW"; exec sleep 60',
    "vcgencmd": 'case $1 in measure_temp) echo "temp=39.2\'C";; *) echo "throttled=0x50000";; esac',
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def install(root: Path, name: str, text: str) -> None:
    program = root / "bin" / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_programs_stand_in_for_files(root: Path) -> None:
    for name, text in PROGRAMS.items():
        install(root, name, text)
    files = LiveFiles(root)
    try:
        state = BoardMeters(Tree(files, timeout_s=None)).read(0.0)
    finally:
        files.close()
    assert (state.power_w.value, state.gpu_load.value, state.throttled.value) == (5.251, 0.07, 0.0)
    assert state.temp_c.value == 49.5


def test_programs_that_fail_are_unknown(root: Path) -> None:
    install(root, "vcgencmd", "echo broken >&2; exit 255")
    install(root, "tegrastats", "exec sleep 0")
    files = LiveFiles(root)
    try:
        assert "tegrastats.txt" in files.names("commands")
        with pytest.raises(OSError, match="printed nothing"):
            files.read("commands/tegrastats.txt")
        with pytest.raises(OSError, match="exit status 255"):
            files.read("commands/vcgencmd-measure_temp.txt")
    finally:
        files.close()


def test_machine_without_programs(root: Path) -> None:
    files = LiveFiles(root)
    assert files.names("commands") == ()
    with pytest.raises(FileNotFoundError):
        files.read("commands/tegrastats.txt")
    files.close()
