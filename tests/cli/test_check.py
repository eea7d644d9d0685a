from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from chipwise.cli.main import main
from tests.check.graphs import proto

FIELDS = {"rule", "severity", "where", "measured", "limit", "message", "remedy"}


@pytest.fixture
def dynamic(tmp_path: Path) -> str:
    onnx.save(proto("g (float[B,16] x) => (float[B,16] y) { y = Gelu(x) }", 20), tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_an_error_ends_with_one(dynamic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", dynamic, "--target", "rk3588"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("error[static_shapes] x[0]: ")
    assert out[-1] == "rk3588: 1 errors, 1 warnings, 0 remarks"


def test_a_warning_ends_with_zero(dynamic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", dynamic, "--target", "rk3588", "--dim", "B=1"]) == 0
    assert "warning[opset]" in capsys.readouterr().out


def test_json_has_exactly_these_fields(dynamic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", dynamic, "--target", "rk3588", "--recipe", "w4a16", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"findings"}
    assert document["findings"]
    assert all(set(finding) == FIELDS for finding in document["findings"])
    assert "scheme" in {finding["rule"] for finding in document["findings"]}


def test_nothing_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(proto("g (float[2,16] x) => (float[2,16] y) { y = Relu(x) }"), tmp_path / "m.onnx")
    assert main(["check", str(tmp_path / "m.onnx"), "--target", "rk3588"]) == 0
    assert capsys.readouterr().out == "rk3588: nothing found\n"
    assert main(["check", str(tmp_path / "m.onnx"), "--target", "rk3588", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "rk9999"], "there is no target"),
        (["--target", "rk3588", "--recipe", "int8"], "no recipe"),
        (["--target", "rk3588", "--dim", "B"], "no dimension"),
        (["--target", "rk3588", "--dim", "B=0"], "no dimension"),
        (["--target", "rk3588", "--dim", "zz=4"], "no dimension 'zz'; there are B"),
        (["--target", "rk3588", "--context", "0"], "0 is not in the range"),
        ([], "Missing option"),
    ],
)
def test_wrong_wishes(dynamic: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", dynamic, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_broken_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    assert main(["check", str(tmp_path / "m.onnx"), "--target", "rk3588"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
