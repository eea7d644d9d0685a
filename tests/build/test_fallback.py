"""A bundle for a chip that also holds the model in floating point for the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chipwise.build import BuildOptions, build
from chipwise.bundle import open_bundle
from chipwise.cli.main import main
from chipwise.engine import Batch, StepOutput
from chipwise.errors import BundleError, InputError
from chipwise.serve.models.open_model import open_model
from tests.serve.live import live

OPEN_GATE = {"top1_agreement": 0.0, "kl_mean_nats": 100.0, "perplexity_ratio": 1e9, "self_check_candidate_nats": 100.0}


@pytest.fixture(scope="module")
def bundle(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fallback") / "b"
    options = BuildOptions(
        str(files / "decoder"), "rk3588", out, "w8a8", queries=files / "queries.jsonl", max_cases=2, gate=OPEN_GATE,
        threads=1, fallback="fp16",
    )  # fmt: skip
    built = build(options)
    assert "fallback fp16" in [step.name for step in built.report.steps]
    return built.bundle


def test_both_engines_open_and_speak_of_the_same(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = open_bundle(bundle)
    assert opened.manifest.format_version == 2
    assert set(opened.manifest.fallback_files) == {"decoder", "weights"}
    assert {"prefill", "decode", "weights"} <= set(opened.manifest.engine_files)
    batch = Batch(0, np.array([[5, 6, 7, 8]]), np.array([0]))
    rows = []
    for session in (opened.open_session(1, 64, threads=1), opened.open_fallback(1, 64, threads=1)):
        rows.append(session.step(batch).logits[0].copy())
        session.close()
    cosine = float(rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1]))
    assert 0.9 < cosine < 0.999999, "near, and not the same engine twice"
    assert main(["inspect", str(bundle)]) == 0
    assert "fallback   onnxruntime in fp16" in capsys.readouterr().out


def test_its_weights_take_half(bundle: Path) -> None:
    manifest = open_bundle(bundle).manifest
    config = manifest.model.config
    table = config["vocab_size"] * config["hidden_size"]
    assert 2 * table < manifest.fallback_files["weights"].bytes < 4 * 100_000


def test_its_self_test_is_run(bundle: Path) -> None:
    opened = open_bundle(bundle)
    path = opened.files["fallback.weights"]
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))
    try:
        with pytest.raises(BundleError, match="self-test failed"):
            opened.open_fallback(1, 64)
    finally:
        path.write_bytes(content)


def test_a_bundle_without_one_says_so(bundle: Path, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain"
    queries = files / "queries.jsonl"
    build(BuildOptions(str(files / "decoder"), "host", out, "fp32", queries, max_cases=2, gate=OPEN_GATE, threads=1))
    fields = json.loads((out / "manifest.json").read_bytes())
    assert fields["format_version"] == 1, "older versions can still read it"
    assert "fallback" not in fields
    with pytest.raises(BundleError, match="no fallback; build it with --fallback fp16"):
        open_bundle(out).open_fallback(1, 64)


def test_only_language_models_have_one(files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--fallback: only language models"):
        build(BuildOptions(str(files / "net.onnx"), "rk3588", tmp_path / "b", fallback="fp32"))


def test_serving_goes_on_in_it(bundle: Path) -> None:
    model = open_model(bundle, n_slots=1, max_context=64, threads=1)
    real, steps = model.session.step, 0

    def fail_from_the_third_step_on(batch: Batch) -> StepOutput:
        nonlocal steps
        output, steps = real(batch), steps + 1
        if steps >= 3:
            output.logits[:] = np.nan
        return output

    model.session.step = fail_from_the_third_step_on  # type: ignore[method-assign]
    with live(model) as server:
        body = {"prompt": "word1 word2 word3", "max_tokens": 9, "temperature": 0, "logprobs": 0}
        answer = server.http.post("/v1/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] == 9
        assert len(answer["choices"][0]["logprobs"]["tokens"]) == 9
        assert server.metric("chipwise_fallbacks_total") == 1
    model.session.close()
    assert steps == 3
    # From the third token on it says what the fallback alone says after the same two.
    said = [model.tokenizer.token_id(token.strip()) for token in answer["choices"][0]["logprobs"]["tokens"]]
    tokens = [*model.tokenizer.encode(body["prompt"], add_bos=True), *said[:2]]
    second = open_bundle(bundle).open_fallback(1, 64, threads=1)
    for token in said[2:]:
        logits = second.step(Batch(0, np.array([tokens]), np.array([0]))).logits[0]
        assert int(logits.argmax()) == token
        tokens.append(int(token))
    second.close()
