from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipwise.cli.main import main
from chipwise.target import Provenance, Quantity, names
from chipwise.target.host import speed


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CHIPWISE_TARGETS", raising=False)


def test_the_list_has_a_line_for_each_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "vendor", "compute", "bandwidth", "schemes", "engine"]
    assert [line.split()[0] for line in lines[1 : 2 + len(names())]] == ["host", *names()]
    assert "has not been measured yet" in lines[-1]


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["rk3588"]["compute"] == "3 x npu, 6.144 TOPS int8"


def test_one_target_with_sources_notes_and_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "rk3576"]) == 0
    out = capsys.readouterr().out
    assert "[vendor: rknpu kernel driver and boot log (2026-11)]" in out
    assert "RK3576 has 256 KB of NPU SRAM" in out
    assert "21.89 GB/s" in out
    assert "32 bit x 5472 MT/s" in out


def test_one_target_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "rk3576@ddr-4224", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["name"] == "rk3576@ddr-4224"
    assert fields["read_bps"] == {
        "value": 16.896e9,
        "unit": "B/s",
        "provenance": {
            "kind": "vendor",
            "source": "bus width times transfer rate of the RK3576 brochure",
            "date": "2026-11",
        },
        "note": "32 bit x 4224 MT/s",
    }


def test_an_unknown_name_is_the_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "rk3577"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: there is no target 'rk3577'; did you mean rk3576?")
    assert captured.err.count("\n") == 1


def test_a_folder_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nvendor = "Me"\nengines = ["onnxruntime"]\n')
    assert main(["targets", "mine", "--folder", str(tmp_path)]) == 0
    assert "vendor" in capsys.readouterr().out
    (tmp_path / "mine.toml").write_text('name = "mine"\nvendr = "Me"\nengines = ["onnxruntime"]\n')
    assert main(["targets", "--folder", str(tmp_path)]) == 2
    assert "mine.toml: " in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_called_as_it_was_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["targets", "--folder", "/nope"]) == 2
    asked = capsys.readouterr().err
    assert "/nope: is no folder" in asked
    assert "--folder" in asked
    assert "CHIPWISE_TARGETS" not in asked
    monkeypatch.setenv("CHIPWISE_TARGETS", "/nope")
    assert main(["targets"]) == 2
    assert "correct CHIPWISE_TARGETS" in capsys.readouterr().err


def test_the_host_is_measured_on_demand(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter(range(1, 100))

    def fake(unit: str) -> Quantity:
        return Quantity(next(figures) * 1e9, unit, Provenance("measured", "a stand-in", "2026-11-29"))

    monkeypatch.setattr(speed, "read_bandwidth", lambda machine, today: fake("B/s"))
    monkeypatch.setattr(speed, "matmul_throughput", lambda machine, dtype, today: fake("op/s"))
    assert main(["targets", "host"]) == 0
    assert "1 GB/s" in capsys.readouterr().out
    assert main(["targets", "host"]) == 0
    assert "1 GB/s" in capsys.readouterr().out
    assert main(["targets", "--measure"]) == 0
    out = capsys.readouterr().out
    assert "4 GB/s" in out
    assert "has not been measured yet" not in out
