from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.bundle import bundle, open_bundle
from chipwise.cli.main import main
from chipwise.report.report import Report
from tests.cli.tiny import TinyEngine, built, write_suite
from tests.report.test_html import parsed


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> TinyEngine:
    engine = TinyEngine()
    monkeypatch.setattr(bundle, "get_engine", {"tiny": engine}.__getitem__)
    return engine


def run(*args: object) -> int:
    return main(["compare", *map(str, args)])


def verified(place: Path, suite: Path, tmp_path: Path, **options: object) -> Path:
    """A bundle with the report of its own verification inside, as a build leaves it."""
    plain = built(tmp_path / f"{place.name}-plain", **options)
    out = tmp_path / f"{place.name}-out"
    main(["verify", str(plain), "--suite", str(suite), "-o", str(out), "--gate", "certainty=0"])
    return built(place, documents={"report.json": (out / "report.json").read_bytes()}, **options)


def test_run_through_a_suite(tmp_path: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    a, b = built(tmp_path / "a"), built(tmp_path / "b", seed=5)
    page = tmp_path / "compare.html"
    assert run(a, b, "--suite", suite, "--output", page) == 0
    out = capsys.readouterr().out
    assert out.startswith("A  tiny, for host, 100 B, decode ")
    assert "on 8 cases of home, run now:" in out
    assert "- B is worse on keyword fidelity by " in out
    assert "= B would choose A's next token at " in out
    assert "note: A's answers: computed; not kept: what tiny runs on is not known" in out
    assert len(engine.sessions) == 2
    assert run(a, b, "--suite", suite, "--output", page) == 2
    assert "something lies there" in capsys.readouterr().err
    assert run(a, b, "--suite", suite, "--output", page, "--overwrite") == 0
    checked = parsed(page.read_text("utf-8"))
    assert checked.sections == ["said", "dimensions", "sides", "cases", "environment"]
    assert not {"script", "link", "img"} & {tag for tag, _ in checked.tags}


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    assert run(built(tmp_path / "a"), built(tmp_path / "b", noise=0.01), "--suite", suite, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["a"]["size_bytes"] == found["b"]["size_bytes"] == 100
    assert {one["kind"] for one in found["statements"]} <= {"worse", "better", "even"}
    assert len(found["quality"]["cases"]) == 8


def test_their_reports_are_read(tmp_path: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    a, b = verified(tmp_path / "a", suite, tmp_path), verified(tmp_path / "b", suite, tmp_path, seed=5)
    capsys.readouterr()
    engine.sessions.clear()
    assert run(a, b) == 0
    out = capsys.readouterr().out
    assert engine.sessions == []
    assert "on 8 cases that both were built with:" in out
    assert "- B is worse on keyword fidelity by " in out
    assert "its gate: pass" in out.splitlines()[0]
    assert "its gate: fail" in out.splitlines()[1]


def other_suite(a: Path) -> bytes:
    report = Report.from_json((a / "report.json").read_bytes(), where="a")
    return replace(report, provenance={"suite sha256": "0" * 64}).to_json()


@pytest.mark.parametrize(
    "wrong", ["none", "empty", "same", "content", "tokenizer", "graph", "report", "suite", "broken", "newer"]
)
def test_what_cannot_be_compared(tmp_path: Path, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    a = verified(tmp_path / "a", suite, tmp_path)
    (tmp_path / "empty").mkdir()
    newer = (a / "report.json").read_bytes().replace(b'"schema_version": 1', b'"schema_version": 99')
    made = {
        "none": lambda: (tmp_path / "nothing", "no such"),
        "empty": lambda: (tmp_path / "empty", "manifest.json"),
        "same": lambda: (tmp_path / "." / "a", "A and B are the same folder"),
        "content": lambda: (built(tmp_path / "b"), "A and B are of the same content"),
        "tokenizer": lambda: (built(tmp_path / "b", noise=1.0, more_words=True), "different tokenizers"),
        "graph": lambda: (built(tmp_path / "b", words=False), "holds no language model"),
        "report": lambda: (built(tmp_path / "b", noise=1.0), "has no report to compare"),
        "suite": lambda: (
            built(tmp_path / "b", noise=1.0, documents={"report.json": other_suite(a)}),
            "different cases",
        ),
        "broken": lambda: (built(tmp_path / "b", noise=1.0, documents={"report.json": b"{}"}), "not a report"),
        "newer": lambda: (built(tmp_path / "b", noise=1.0, documents={"report.json": newer}), "report of schema 99"),
    }
    b, words = made[wrong]()
    capsys.readouterr()
    assert run(a, b) == 2
    _, err = capsys.readouterr()
    assert words in err
    assert err.count("\n") == 1
    assert "; " in err, "it says what to do"


def test_another_tokenizer_is_refused_before_anything_runs(tmp_path: Path, engine: TinyEngine) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    a, b = built(tmp_path / "a"), built(tmp_path / "b", noise=1.0, more_words=True)
    assert run(a, b, "--suite", suite) == 2
    assert engine.sessions == []


def test_reports_of_different_versions_are_said_to_be_scored_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    a, b = verified(tmp_path / "a", suite, tmp_path), verified(tmp_path / "b", suite, tmp_path, seed=5)
    capsys.readouterr()
    assert run(a, b) == 0
    assert "different versions" not in capsys.readouterr().out
    report = json.loads((a / "report.json").read_text())
    report["versions"]["chipwise"] = "0.0.9"
    older = built(tmp_path / "older", documents={"report.json": json.dumps(report).encode()})
    assert run(older, b) == 0
    assert "scored by different versions, A by chipwise 0.0.9, B by " in capsys.readouterr().out


def test_the_order_of_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = write_suite(tmp_path / "home.jsonl")
    assert run(built(tmp_path / "a"), built(tmp_path / "b", noise=0.01), "--suite", suite) == 0
    lines: Sequence[str] = capsys.readouterr().out.splitlines()
    assert [line[:2] for line in lines[:2]] == ["A ", "B "]
    assert lines[3].split() == ["dimension", "cases", "A", "B", "lost", "verdict"]
    assert open_bundle(tmp_path / "a").manifest.name == "tiny"
