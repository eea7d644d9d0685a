from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chipwise.cli.main import main
from chipwise.report.report import Report
from tests.build.models import write_decoder, write_queries


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``fp32`` and ``w8a16`` of one tiny decoder, and ``suite.jsonl``."""
    folder = tmp_path_factory.mktemp("bundles")
    write_decoder(folder / "model")
    write_queries(folder / "queries.jsonl")
    for recipe in ("fp32", "w8a16"):
        arguments = [str(folder / "model"), "--target", "host", "--recipe", recipe, "--threads", "1", "--cases", "4"]
        queries, out = str(folder / "queries.jsonl"), str(folder / recipe)
        # A random model loses what it loses.
        main(["build", *arguments, "--queries", queries, "--gate", "kl_mean_nats=9", "-o", out])
        if not (folder / recipe).exists():
            shutil.move(folder / f"{recipe}.failed", folder / recipe)
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()[:4]]
    cases = [{**line, "id": str(i), "keywords": [], "max_tokens": 4} for i, line in enumerate(lines)]
    (folder / "suite.jsonl").write_text("\n".join(map(json.dumps, cases)))
    return folder


def run(bundles: Path, bundle: str, *args: object) -> int:
    suite = str(bundles / "suite.jsonl")
    return main(["verify", str(bundles / bundle), "--suite", suite, "--threads", "1", *map(str, args)])


def test_layers_are_named_on_the_terminal_and_in_the_report(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bundles, "w8a16", "--reference", bundles / "fp32", "--attribute", "-o", tmp_path / "out") in (0, 1)
    out = capsys.readouterr().out
    assert "damage from " in out
    assert "own error" in out
    report = Report.from_json((tmp_path / "out" / "report.json").read_bytes(), where="report.json")
    assert report.attribution is not None
    assert {"embedding", "layers.0.attention", "layers.0.feed_forward", "layers.0.residual", "output"} <= {
        layer.layer for layer in report.attribution.layers
    }
    assert report.attribution.culprit


def test_it_needs_a_reference(bundles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bundles, "w8a16", "--attribute") == 2
    assert capsys.readouterr().err == (
        "error: --attribute swaps layers with a reference's; give --reference, an fp32 bundle\n"
    )


def test_a_reference_that_is_not_there(bundles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(bundles, "w8a16", "--attribute", "--reference", bundles / "nowhere") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_another_chat_template_is_named_first(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_decoder(tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for m in messages %}{{ m['content'] }} {{ m['content'] }}{% endfor %}"
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(settings))
    arguments = [str(tmp_path / "model"), "--target", "host", "--recipe", "fp32", "--cases", "4"]
    main(["build", *arguments, "--queries", str(bundles / "queries.jsonl"), "-o", str(tmp_path / "b")])
    capsys.readouterr()
    arguments = ["--suite", str(bundles / "suite.jsonl"), "--threads", "1", "--reference", str(bundles / "fp32")]
    assert main(["verify", str(tmp_path / "b"), *arguments, "--attribute"]) == 1
    out, err = capsys.readouterr()
    assert "damage from chat template: 4 of 4 cases are put to the two in different tokens: 0 is '" in out
    assert "FAIL  Prompts that differ" in out
    assert "not run: drift of the same tokens (the two sides' chat templates write different ones)" in out
    assert err.startswith("error: ")
