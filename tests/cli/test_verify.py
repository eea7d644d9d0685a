from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from chipwise.bundle import bundle
from chipwise.bundle.variants import add_variant
from chipwise.cli.main import main
from chipwise.errors import OutputError
from chipwise.report.report import Report
from chipwise.verify.reference import verify_beside
from chipwise.verify.suite import read_suite
from tests.bundle.test_variants import verdicts
from tests.cli.tiny import TinyEngine, built, write_suite
from tests.verify.chat_server import says, served
from tests.verify.semantic.test_embedder import graph, tokenizer

# Eight cases prove little: the measured value decides.
MEASURED = ("--gate", "certainty=0")


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> TinyEngine:
    engine = TinyEngine()
    monkeypatch.setattr(bundle, "get_engine", {"tiny": engine}.__getitem__)
    return engine


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Eight cases that the sound model gets right: the keyword is the first word of its answer."""
    return write_suite(tmp_path / "home.jsonl")


def run(*args: object) -> int:
    return main(["verify", *map(str, args)])


def test_a_sound_bundle_alone(
    tmp_path: Path, suite: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(built(tmp_path / "b"), "--suite", suite, *MEASURED) == 0
    out, err = capsys.readouterr()
    assert "Keyword fidelity  8      -          100 % (67.6 to 100 %)  -     pass" in out
    assert "note: Only 8 cases were verified: so few prove little." in out
    assert "not run: drift against a reference (no --reference was given)" in out
    assert out.endswith("All 3 gates hold.\n")
    assert err == ""
    assert all(session.closed for session in engine.sessions)
    assert engine.sessions[0].n_slots == 8


def test_beside_a_reference(
    tmp_path: Path, suite: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = built(tmp_path / "r", four_bits=False)
    assert (
        run(built(tmp_path / "b", noise=0.003), "--suite", suite, "--reference", reference, "--slots", 3, *MEASURED)
        == 0
    )
    out = capsys.readouterr().out
    assert "100 % (67.6 to 100 %)  100 % (67.6 to 100 %)  0.0 (-32.4 to 32.4 %)  pass" in out
    assert "pass  KL divergence" in out
    assert "needs ≤ 0.1 nats" in out
    assert "(kl_mean_nats)" in out
    assert "must be 0" in out
    assert [session.n_slots for session in engine.sessions] == [3, 3]
    assert all(session.closed for session in engine.sessions)


@pytest.fixture
def two_forms(tmp_path: Path) -> Path:
    """A bundle whose variant is damaged beyond what a gate lets pass."""
    bundle, other = built(tmp_path / "b"), built(tmp_path / "cool", noise=0.5, verdicts=verdicts())
    add_variant(bundle, other, "cool")
    return bundle


def test_a_variant_is_judged_as_the_bundle_it_was_made_of(
    two_forms: Path, tmp_path: Path, suite: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, reports = built(tmp_path / "r", four_bits=False, noise=1e-4), []
    for judged in ([two_forms], [two_forms, "--variant", "cool"], [tmp_path / "cool"]):
        engine.sessions.clear()
        code = run(*judged, "--suite", suite, "--reference", reference, "--no-cache", *MEASURED, "--json")
        reports.append((code, Report.from_json(capsys.readouterr().out.encode(), where="stdout")))
        assert all(session.closed for session in engine.sessions)
    (main_code, main), (code, variant), (alone_code, alone) = reports
    assert (main_code, code, alone_code) == (0, 1, 1)
    assert (main.provenance["bundle"], variant.provenance["bundle"]) == ("tiny", "tiny:cool")
    assert variant.title.startswith("tiny:cool, suite ")
    assert variant.verdicts == alone.verdicts != main.verdicts


def test_a_variant_may_be_held_against_the_form_beside_it(
    two_forms: Path, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(two_forms, "--variant", "cool", "--suite", suite, "--reference", two_forms, *MEASURED) == 1
    assert "FAIL  KL divergence" in capsys.readouterr().out


def test_a_variant_that_is_not_there(two_forms: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, known in ((two_forms, "it has cool"), (two_forms.parent / "cool", "it has none")):
        assert run(place, "--variant", "warm", "--suite", suite) == 2
        assert capsys.readouterr().err == f"error: {place}: it has no variant 'warm'; {known}\n"


def test_the_references_answers_are_kept(
    tmp_path: Path, suite: Path, engine: TinyEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify_beside, "KNOWN_ENGINES", frozenset({"tiny"}))
    reference, bundle = built(tmp_path / "r", four_bits=False), built(tmp_path / "b", noise=0.003)

    def opened(*options: object) -> tuple[int, str]:
        engine.sessions.clear()
        assert run(bundle, "--suite", suite, "--reference", reference, *MEASURED, *options) == 0
        lines = capsys.readouterr().out.splitlines()
        (said,) = [line for line in lines if line.startswith("reference answers: ")]
        return len(engine.sessions), said

    assert opened() == (2, "reference answers: computed, and kept")
    sessions, said = opened()
    assert sessions == 1
    assert said.startswith("reference answers: from the cache, computed 20")
    assert opened("--no-cache") == (2, "reference answers: computed; not kept: the cache was not to be used")
    assert opened("--slots", 3)[0] == 2


def test_few_cases_do_not_pass(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(built(tmp_path / "b"), "--suite", suite, "--json") == 1
    out, err = capsys.readouterr()
    assert Report.from_json(out.encode(), where="stdout").outcome == "unclear"
    assert err.startswith("error: Not enough cases to tell: Keyword fidelity 100 % (needs ≥ 90 %, about 17 more")
    assert err.count("\n") == 1


def test_the_suite_sets_the_gate_and_the_command_line_overrides_it(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, toml = built(tmp_path / "b"), tmp_path / "suite.toml"
    toml.write_text("name = 'mine'\n[gate]\ncertainty = 0\n")
    assert run(bundle, "--suite", tmp_path) == run(bundle, "--suite", toml) == 0
    assert run(bundle, "--suite", toml, "--gate", "certainty=0.9") == 1
    toml.write_text("[gate]\ncertainty = 2\n")
    capsys.readouterr()
    assert run(bundle, "--suite", toml) == 2
    assert "suite.toml: the threshold certainty is 2" in capsys.readouterr().err


def test_damage_fails_with_exit_code_1(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = built(tmp_path / "r", four_bits=False)
    assert run(built(tmp_path / "b", noise=0.6), "--suite", suite, "--reference", reference) == 1
    out, err = capsys.readouterr()
    assert "FAIL  KL divergence" in out
    assert "gates do not hold: KL divergence" in err
    assert err.endswith("run again with -o FOLDER for the report\n")
    assert err.count("\n") == 1


def test_wide_weights_are_held_to_more(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = built(tmp_path / "r", four_bits=False)
    candidate = built(tmp_path / "b", four_bits=False, noise=0.1)
    assert run(candidate, "--suite", suite, "--reference", reference) == 1
    assert "needs ≤ 0.005 nats" in capsys.readouterr().out
    wide = [
        *("--gate", "kl_mean_nats=9", "--gate", "top1_agreement = 0", "--gate", "perplexity_ratio=9"),
        *("--gate", "keyword_fidelity_drop=1"),
    ]
    assert run(candidate, "--suite", suite, "--reference", reference, *wide) == 0


def test_json_is_the_report(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(built(tmp_path / "b", noise=0.9), "--suite", suite, "--json") == 1
    report = Report.from_json(capsys.readouterr().out.encode(), where="stdout")
    assert report.outcome == "fail"
    assert report.target == "host"
    assert report.quality is not None
    assert len(report.quality.cases) == 8
    assert report.provenance["suite sha256"] == read_suite(suite).sha256
    assert report.hardware["cores"]


def test_the_report_is_written(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = built(tmp_path / "r")
    out = tmp_path / "deep" / "out"
    assert run(built(tmp_path / "b", noise=0.6), "--suite", suite, "--reference", reference, "-o", out) == 1
    assert f"see {out / 'report.html'}" in capsys.readouterr().err
    report = Report.from_json((out / "report.json").read_bytes(), where="r")
    assert [check.session for check in report.quality.self_checks if report.quality] == ["reference", "candidate"]
    assert "<h1>tiny, suite home</h1>" in (out / "report.html").read_text("utf-8")


def test_cases_beyond_the_models_context_are_named(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(built(tmp_path / "b", context=18), "--suite", suite) == 1
    assert "FAIL  Cases not run" in capsys.readouterr().out


def test_a_suite_that_says_of_nothing_what_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a reference its drift is judged; alone nothing would be, which must not read as a pass."""
    path = tmp_path / "bare.jsonl"
    path.write_text('{"id": "a", "prompt": "w5 w6", "max_tokens": 4}')
    assert run(built(tmp_path / "b"), "--suite", path) == 2
    assert "nothing would be judged; name keywords" in capsys.readouterr().err
    run(built(tmp_path / "c", noise=1e-4), "--suite", path, "--reference", tmp_path / "b")
    assert "not run: the domain matrix (no case that ran says what is right)" in capsys.readouterr().out


def test_a_reference_of_the_same_content_is_none(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(built(tmp_path / "b"), "--suite", suite, "--reference", built(tmp_path / "r")) == 2
    assert "of the same content as the bundle" in capsys.readouterr().err


def test_a_report_is_not_written_into_a_bundle(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = built(tmp_path / "b")
    before = sorted((path, path.read_bytes()) for path in bundle.rglob("*") if path.is_file())
    assert run(bundle, "--suite", suite, "-o", bundle) == 2
    assert "lies in a bundle" in capsys.readouterr().err
    assert sorted((path, path.read_bytes()) for path in bundle.rglob("*") if path.is_file()) == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--gate", "kl_mean_nats"], "is not NAME=VALUE"),
        (["--gate", "kl=1"], "no threshold named 'kl'"),
        (["--reference", "nowhere"], "no such folder"),
        (["--slots", "0"], "slots"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert run(built(tmp_path / "b"), "--suite", suite, *args) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_wrong_files_are_one_line_and_exit_code_2(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, good = built(tmp_path / "bare", words=False), built(tmp_path / "b")
    for place, cases, message in (
        (bare, suite, "no tokenizer in the bundle"),
        (tmp_path / "none", suite, "no such folder"),
        (good, tmp_path / "none.jsonl", "no such file"),
        (good, good / "manifest.json", "manifest.json:1"),
    ):
        assert run(place, "--suite", cases) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    assert run(good, "--suite", suite, "--reference", bare) == 2
    assert "another tokenizer" in capsys.readouterr().err


def test_an_output_folder_that_cannot_be_made(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(built(tmp_path / "b"), "--suite", suite, "-o", tmp_path / "file" / "out") == 2
    assert "is a file, no folder" in capsys.readouterr().err


@pytest.mark.parametrize("full_at", ["report.json", "report.html"])
@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_no_folder_behind(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch, full_at: str, there: bool
) -> None:
    def write(path: Path, data: str | bytes) -> None:
        if path.name == full_at:
            raise OutputError("no space left to write", where=str(path))
        path.touch()

    monkeypatch.setattr("chipwise.cli.verify.write_atomic", write)
    out = tmp_path / "deep" / "out"
    if there:
        out.mkdir(parents=True)
        (out / "theirs").touch()
    assert run(built(tmp_path / "b"), "--suite", suite, "-o", out) == 2
    assert (tmp_path / "deep").exists() == there
    assert not there or (out / "theirs").exists()


@pytest.mark.parametrize("compared", [True, False])
def test_a_suite_of_which_no_case_fits(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str], compared: bool
) -> None:
    bundle, out = built(tmp_path / "b", context=9), tmp_path / "out"
    suite.write_text(json.dumps({"id": "long", "prompt": "w5 " * 30, "keywords": ["w6"]}))
    more = ["--reference", built(tmp_path / "r", noise=0.6)] if compared else []
    assert run(bundle, "--suite", suite, "-o", out, *more) == 2
    said, err = capsys.readouterr()
    assert "no case fits the context of 9 tokens" in err
    assert err.count("\n") == 1
    assert said == ""
    assert not out.exists()


def test_a_terminal_gets_a_bar(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(built(tmp_path / "b"), "--suite", suite, *MEASURED) == 0
    assert "cases" in capsys.readouterr().err


def test_semantic_drift_beside_a_reference(tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, candidate = built(tmp_path / "r"), built(tmp_path / "b", noise=0.6)
    (tmp_path / "model").mkdir()
    tokenizer(graph(tmp_path / "model"))
    told = ("--embeddings", tmp_path / "model")
    assert run(candidate, "--suite", suite, "--reference", reference, *told, "--json") == 1
    found = Report.from_json(capsys.readouterr().out.encode(), where="stdout").quality
    assert found is not None
    assert found.semantic is not None
    # This model knows none of the words.
    assert found.semantic.unknown_tokens == 1
    assert run(candidate, "--suite", suite, "--reference", reference, *told) == 1
    out = capsys.readouterr().out
    assert "semantic drift (SDI, model): mean 0.000" in out
    assert "changed answers look the same to the embedding model" in out
    assert run(candidate, "--suite", suite, "--reference", reference, "--embeddings", tmp_path / "none") == 2


def test_without_an_embedding_model_the_report_says_so(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chipwise.cli.verify.installed_model", lambda: None)
    reference = built(tmp_path / "r", noise=1e-6)
    run(built(tmp_path / "b"), "--suite", suite, "--reference", reference, *MEASURED)
    assert "not run: semantic drift (no embedding model; give --embeddings, or pip install" in capsys.readouterr().out


def test_a_server_is_judged_by_its_url(
    tmp_path: Path, suite: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chipwise.cli.verify_server.installed_model", lambda: None)
    right = {case.text: case.keywords[0] for case in read_suite(suite).cases}

    def reply(body: dict[str, Any], n: int) -> Any:
        return says(right[body["messages"][-1]["content"]] if body["model"] != "second" else "nothing")

    with served(reply) as server:
        assert run("--url", server.url, "--suite", suite, *MEASURED) == 0
        out = capsys.readouterr().out
        assert "Keyword fidelity  8      -          100 % (67.6 to 100 %)  -     pass" in out
        assert "not run: drift of probabilities (a server gives answers, not its logits)" in out
        both = ("--url", server.url, "--reference-url", server.url, "--model", "second")
        assert run(*both, "--suite", suite, "--json") == 1
        report = Report.from_json(capsys.readouterr().out.encode(), where="stdout")
        assert report.outcome == "fail"
        assert (report.model, report.recipe, report.target) == ("second", "served", "server")
        assert report.provenance["reference server"] == f"{server.url}, model first"
        assert report.certainty == 0.95
    assert run("--url", server.url, "--suite", suite) == 2
    assert "cannot reach the server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "one of BUNDLE and --url is judged"),
        (("b", "--url", "http://x"), "one of BUNDLE and --url is judged"),
        (("b", "--model", "m"), "belong to --url"),
        (("--url", "http://x", "--reference", "b"), "no logits to compare"),
        (("--url", "x"), "'x' is no URL"),
        (("--url", "http://x", "--variant", "cool"), "a server's model has no variants"),
        (("b", "--embeddings", "m"), "--embeddings compares with a reference"),
    ],
)
def test_what_is_judged_must_be_one_thing(
    suite: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
) -> None:
    assert run(*args, "--suite", suite) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_reference_that_is_rounded_itself_is_said(
    tmp_path: Path, suite: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    run(built(tmp_path / "b", noise=0.003), "--suite", suite, "--reference", built(tmp_path / "r"), *MEASURED)
    assert "note: The reference itself is stored in uint4: what it had lost before" in capsys.readouterr().out


def test_one_servers_key_is_not_sent_to_another(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.cli.verify_server.installed_model", lambda: None)
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    with served(lambda body, n: says("x")) as one, served(lambda body, n: says("x")) as other:
        run("--url", one.url, "--reference-url", other.url, "--suite", suite)
        assert {head.get("Authorization") for head in one.headers} == {"Bearer ours"}
        assert {head.get("Authorization") for head in other.headers} == {None}
        monkeypatch.setenv("OPENAI_REFERENCE_API_KEY", "theirs")
        run("--url", one.url, "--reference-url", other.url, "--suite", suite)
        assert other.headers[-1]["Authorization"] == "Bearer theirs"


def test_a_folder_in_a_reports_place_is_found_before_anything_is_written(
    tmp_path: Path, suite: Path, engine: TinyEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    assert run(built(tmp_path / "b"), "--suite", suite, "-o", tmp_path / "out", *MEASURED) == 2
    assert "is a folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert engine.sessions == []
