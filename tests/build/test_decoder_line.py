"""Whole builds of a tiny decoder, for a CPU and for chips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.build import BuildOptions, BuildResult, build
from chipwise.build.sizes import OTHER, float32_bytes
from chipwise.bundle import Bundle, open_bundle
from chipwise.engine import Batch
from chipwise.errors import BundleError, GateFailedError, InputError, QueryFileError
from chipwise.model.importer import load_model
from chipwise.report.report import Report

# Answers of random weights differ for nothing: what is looked at is the path, not the figures.
OPEN_GATE = {"top1_agreement": 0.0, "kl_mean_nats": 100.0, "perplexity_ratio": 1e9, "self_check_candidate_nats": 100.0}


def _build(files: Path, out: Path, target: str, recipe: str, **changes: Any) -> BuildResult:
    fields: dict[str, Any] = {"queries": files / "queries.jsonl", "max_cases": 4, "gate": OPEN_GATE, "threads": 1}
    return build(BuildOptions(str(files / "decoder"), target, out, recipe, **(fields | changes)))


def _opened(result: BuildResult) -> tuple[Bundle, Report]:
    bundle = open_bundle(result.bundle)
    data = (result.bundle / "report.json").read_bytes()
    return bundle, Report.from_json(data, where="report.json")


def _sizes_are_those_of_model_and_file(bundle: Bundle, report: Report, files: Path) -> None:
    after = sum(one.bytes_after for one in report.schemes)
    assert after == bundle.manifest.files["weights"].bytes
    # The same whatever the target.
    before = sum(one.bytes_before for one in report.schemes)
    assert before == float32_bytes(load_model(str(files / "decoder")))
    # Norms this small lie in the graph itself.
    assert sum(one.bytes_before for one in report.schemes if one.scheme == OTHER) <= 2048
    assert "model.embed_tokens.weight" in {name.removesuffix(".table") for name in bundle.manifest.tensors}


@pytest.mark.parametrize(
    ("target", "recipe", "dtypes"),
    [
        ("rk3588", "w8a8", {"int8", "float16"}),
        pytest.param("rk3588", "fp16", {"float16"}, marks=pytest.mark.slow),
        pytest.param("rk3562", "w8a16", {"int8", "float16"}, marks=pytest.mark.slow),
        ("rk3576", "w4a16_g32", {"uint4", "float16"}),
    ],
)
def test_a_chip_is_emulated_and_the_bundle_says_so(
    target: str, recipe: str, dtypes: set[str], files: Path, tmp_path: Path
) -> None:
    result = _build(files, tmp_path / "b", target, recipe)
    bundle, report = _opened(result)
    assert result.passed
    manifest = bundle.manifest
    assert manifest.name == f"decoder-{recipe}-{target}-emulated"
    assert (manifest.engine.name, manifest.engine.options) == ("onnxruntime", {"fuse_qdq": False})
    assert {"prefill", "decode", "weights", "tokenizer"} <= set(manifest.files)
    assert {entry.scheme.dtype for entry in manifest.tensors.values()} - {"float32"} == dtypes
    assert report.not_run[0].what == f"compile for {target}"
    assert "not the chip's own" in report.not_run[0].why
    assert "emulated on this machine" in report.title
    assert report.emulates == manifest.emulates == target
    assert report.provenance["figures"] == f"{target} emulated on this machine"
    assert [step.name for step in report.rewrites] == ["fix_shapes", "mask_constant"]
    _sizes_are_those_of_model_and_file(bundle, report, files)
    assert {layer.name for layer in report.layers} >= {"layers.0.output", "layers.1.output"}
    # It serves: the self-test runs in the session that is returned.
    context = manifest.model.config["max_positions"]
    assert context % 32 == 0
    session = bundle.open_session(2, context)
    logits = session.step(Batch(1, np.array([[5, 6, 7]]), np.array([0]))).logits
    assert np.isfinite(logits).all()
    session.close()


def test_a_cpu_runs_products_in_integers(files: Path, tmp_path: Path) -> None:
    result = _build(files, tmp_path / "b", "host", "w8a8")
    bundle, report = _opened(result)
    assert bundle.manifest.name == "decoder-w8a8"
    assert "emulated" not in report.title
    assert report.emulates is bundle.manifest.emulates is None
    assert not any("compile" in item.what for item in report.not_run)
    assert {entry.scheme.dtype for entry in bundle.manifest.tensors.values()} == {"int8", "float32"}
    bundle.open_session(1, 64).close()
    _sizes_are_those_of_model_and_file(bundle, report, files)


def test_a_table_in_eight_bits_is_part_of_the_size(files: Path, tmp_path: Path) -> None:
    bundle, report = _opened(_build(files, tmp_path / "b", "host", "w4a16"))
    _sizes_are_those_of_model_and_file(bundle, report, files)
    assert bundle.manifest.tensors["model.embed_tokens.weight"].scheme.dtype == "uint8"


def test_a_graph_that_is_spoiled_fails_its_self_test(files: Path, tmp_path: Path) -> None:
    bundle, _ = _opened(_build(files, tmp_path / "b", "rk3588", "w8a8"))
    test = bundle.manifest.self_test
    assert test is not None
    # Served with the pairs fused, as no chip computes, it still passes: the rounding is the same. Zeros do not.
    weights = bundle.files["weights"]
    weights.write_bytes(bytes(weights.stat().st_size))
    with pytest.raises(BundleError, match="altered"):
        open_bundle(bundle.path)
    with pytest.raises(BundleError, match="self-test failed"):
        bundle.open_session(1, 64)


def test_a_gate_that_fails_goes_beside_what_works(files: Path, tmp_path: Path) -> None:
    result = _build(files, tmp_path / "b", "rk3588", "w8a8", gate={"kl_mean_nats": 1e-12})
    assert not result.passed
    assert result.bundle == tmp_path / "b.failed"
    assert not (tmp_path / "b").exists()
    verdicts = {
        one["metric"]: one["passed"] for one in json.loads((result.bundle / "report.json").read_text())["verdicts"]
    }
    assert not verdicts["kl_mean_nats"]
    assert [path.name for path in tmp_path.iterdir()] == ["b.failed"]


def test_auto_goes_on_to_what_passes(files: Path, tmp_path: Path) -> None:
    result = _build(files, tmp_path / "b", "rk3588", "auto", gate={"kl_mean_nats": 1e-5, "top1_agreement": 0.0})
    assert result.recipe == "fp16"
    assert "w8a8: gate failed" in result.report.provenance["recipes tried"]


def test_a_context_the_user_asked_for(files: Path, tmp_path: Path) -> None:
    result = _build(files, tmp_path / "b", "rk3588", "fp16", max_context=96)
    bundle, _ = _opened(result)
    assert bundle.manifest.model.config["max_positions"] == 96
    with pytest.raises(GateFailedError, match="rk3588 cannot take it"):
        _build(files, tmp_path / "c", "rk3588", "fp16", max_context=100)


def test_what_the_user_gave_wrong(files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rk3588 does not take the recipe w4a16; it takes"):
        _build(files, tmp_path / "b", "rk3588", "w4a16")
    with pytest.raises(InputError, match="no recipe 'int8'"):
        _build(files, tmp_path / "b", "rk3588", "int8")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(QueryFileError):
        _build(files, tmp_path / "b", "rk3588", "w8a8", queries=tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match="no threshold named 'speed'"):
        _build(files, tmp_path / "b", "rk3588", "fp16", gate={"speed": 1.0})
    assert [path.name for path in tmp_path.iterdir()] == ["empty.jsonl"]
