from __future__ import annotations

import json
from pathlib import Path

import pytest

from chipwise.cli.main import main
from chipwise.verify.suite import read_suite


def run(*args: object) -> int:
    return main(["suite", *map(str, args)])


def test_a_new_suite_of_a_domain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cabin"
    assert run("new", "--domain", "vehicle", "-o", out, "--cases", 16) == 0
    said = capsys.readouterr().out
    assert said.startswith("16 cases: 4 keyword, 4 logic, 4 long_range, 4 noise\n")
    assert read_suite(out).name == "cabin"
    assert run("new", "--domain", "vehicle", "-o", out) == 2
    assert "a suite lies there" in capsys.readouterr().err
    assert run("new", "--domain", "vehicle", "-o", out, "--cases", 8, "--overwrite") == 0
    assert len(read_suite(out).cases) == 8


def test_a_draft_from_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"prompt": f"Open valve-{i} at 7:{i}"}) for i in range(10, 30)))
    assert run("new", "--domain", "home", "--from", log, "-o", tmp_path / "s", "--cases", 32) == 0
    assert "32 cases: 8 keyword, 8 logic, 8 long_range, 8 noise" in capsys.readouterr().out
    assert "A draft from log.jsonl" in (tmp_path / "s" / "suite.toml").read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--domain", "kitchen"), "kitchen"),
        (("--domain", "home", "--cases", 3), "3 is not in the range"),
        (("--domain", "home", "--from", "none.jsonl"), "no such file"),
        ((), "Missing option"),
    ],
)
def test_wrong_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[object, ...], message: str
) -> None:
    assert run("new", "-o", tmp_path / "s", *args) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_a_suite_of_another_tools_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"question": "6 * 7?", "answer": "42"}\n{"question": "why?"}\n')
    assert run("import", log, "-o", tmp_path / "s") == 0
    out = capsys.readouterr().out
    assert out.startswith("left out, as they make no case: 1 lines (2)\n1 cases: 1 keyword\n")
    assert read_suite(tmp_path / "s").cases[0].misses("42!") == ()
    assert run("import", log, "-o", tmp_path / "t", "--format", "chat") == 2
    assert "no line makes a case as chat" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_no_suite_is_written_into_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str], below: str) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "log.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    out = tmp_path / below
    assert run("new", "--domain", "home", "-o", out) == 2
    assert run("import", tmp_path / "log.jsonl", "-o", out) == 2
    assert capsys.readouterr().err.count("lies in a bundle") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"manifest.json", "log.jsonl"}
