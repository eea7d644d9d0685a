from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipwise.cli.main import main
from tests.telemetry.fakes import RK3588


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    for path, text in RK3588.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_text_has_values_sources_and_reasons(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "--root", str(recording)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{recording}: 7 of 12 values known"
    assert "  temp_c           51.6 °C    sys/class/thermal/thermal_zone6/temp (the hottest, npu-thermal)" in lines
    assert "  power_w          unknown    nothing on this board tells it" in lines


def test_json(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "--root", str(recording), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    board = {reading["name"]: reading for reading in found["board"]}
    assert (board["npu_load"]["value"], board["npu_load"]["unit"]) == (0.64, "1")
    assert board["power_w"]["value"] is None
    assert board["power_w"]["unknown"]
    assert any(reading["name"] == "temp_c/npu-thermal" for reading in found["details"])


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["root"] == "/"


@pytest.mark.parametrize(("name", "words"), [("none", "no such folder"), ("file", "is no folder"), ("", "holds none")])
def test_roots_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str) -> None:
    (tmp_path / "file").touch()
    assert main(["board", "--root", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error
    assert "give the folder" in error
