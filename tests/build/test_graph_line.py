"""Whole builds of a small net and a tiny encoder, for a CPU and for chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from chipwise.build import BuildOptions, BuildResult, build
from chipwise.build.sizes import float32_bytes
from chipwise.bundle import open_bundle
from chipwise.errors import BundleError, GateFailedError, InputError, RewriteError
from chipwise.model.importer import load_model
from tests.build.models import write_images

# Random encoders have outliers that a trained one need not have.
OPEN_GATE = {"output_cosine": 0.5, "channel_cosine": 0.5}


def _net(files: Path, out: Path, target: str, recipe: str, **changes: Any) -> BuildResult:
    fields: dict[str, Any] = {"samples": files / "images.npz", "threads": 1}
    return build(BuildOptions(str(files / "net.onnx"), target, out, recipe, **(fields | changes)))


def _feed(n: int = 1) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(0).normal(size=(n, 3, 16, 16)).astype(np.float32)}


def test_a_net_for_a_cpu_runs_in_integers(files: Path, tmp_path: Path) -> None:
    result = _net(files, tmp_path / "b", "host", "auto")
    assert (result.passed, result.recipe) == (True, "w8a8")
    bundle = open_bundle(result.bundle)
    manifest = bundle.manifest
    assert manifest.name == "net-w8a8"
    assert manifest.model.config["inputs"] == {"image": ["batch", 3, 16, 16]}
    assert {"graph", "self_test_inputs", "self_test_outputs"} <= set(manifest.files)
    session = bundle.open_graph(threads=1)
    assert session.run(_feed(2))["logits"].shape == (2, 6)
    session.close()
    assert result.report.layers[0].name == "logits"
    assert result.report.layers[0].whole > 0.99
    assert any(step.name == "conv_bn_relu" for step in result.report.rewrites)
    assert not result.report.not_run


@pytest.mark.parametrize(("target", "recipe"), [("rk3588", "w8a8"), ("rk3588", "fp16"), ("ethos-u65", "w8a8")])
def test_a_net_for_a_chip_is_emulated_in_fixed_shapes(target: str, recipe: str, files: Path, tmp_path: Path) -> None:
    result = _net(files, tmp_path / "b", target, recipe)
    bundle = open_bundle(result.bundle)
    assert bundle.manifest.name == f"net-{recipe}-{target}-emulated"
    assert bundle.manifest.engine.options == {"fuse_qdq": False}
    assert bundle.manifest.model.config["inputs"] == {"image": [1, 3, 16, 16]}
    assert result.report.not_run[0].what == f"compile for {target}"
    with pytest.raises(Exception, match=r"batch|shape|dimension|Got"):
        bundle.open_graph().run(_feed(2))


def test_without_samples_the_report_says_that_they_were_drawn(files: Path, tmp_path: Path) -> None:
    result = _net(files, tmp_path / "b", "host", "w8a8", samples=None, gate=OPEN_GATE)
    assert [item.what for item in result.report.not_run] == ["your own samples"]
    assert "drawn at random" in result.report.not_run[0].why


def test_samples_of_another_domain_are_a_finding(files: Path, tmp_path: Path) -> None:
    """The later files of a folder are calibrated with, the first ones verified on."""
    folder = tmp_path / "samples"
    folder.mkdir()
    for i, spread in enumerate([8.0] * 2 + [1.0] * 6):
        write_images(folder / f"{i}.npz", 1, spread)
    far = _net(
        files, tmp_path / "far", "rk3588", "w8a8", samples=folder, gate={"output_cosine": 0, "channel_cosine": 0}
    )
    near = _net(files, tmp_path / "near", "rk3588", "w8a8")
    assert "calibration_range" in {finding.rule for finding in far.report.findings}
    assert "calibration_range" not in {finding.rule for finding in near.report.findings}
    assert far.report.layers[0].whole < near.report.layers[0].whole - 0.02


def test_a_gate_that_fails(files: Path, tmp_path: Path) -> None:
    result = _net(files, tmp_path / "b", "host", "w8a8", gate={"output_cosine": 0.9999999})
    assert not result.passed
    assert result.bundle.name == "b.failed"


def test_a_kernel_that_returns_zeros_is_caught(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chipwise.engine.onnxruntime.graph import OnnxGraphSession

    bundle = open_bundle(_net(files, tmp_path / "b", "rk3588", "w8a8").bundle)
    right = OnnxGraphSession.run
    monkeypatch.setattr(
        OnnxGraphSession, "run", lambda self, feed: {name: y * 0 for name, y in right(self, feed).items()}
    )
    with pytest.raises(BundleError, match="the output logits is all zeros: a kernel of the runtime does nothing"):
        bundle.open_graph()


def test_a_recipe_that_fits_no_weight(files: Path, tmp_path: Path) -> None:
    with pytest.raises(RewriteError, match=r"8 input channels are no multiple of 16|no weight of the graph"):
        _net(files, tmp_path / "b", "host", "w4a16")
    assert not list(tmp_path.iterdir())


def test_control_flow_on_data_stops_a_chip_build(tmp_path: Path) -> None:
    branch = [
        oh.make_graph(
            [oh.make_node(op, ["x"], [f"{op}_y"])], op, [],
            [oh.make_tensor_value_info(f"{op}_y", onnx.TensorProto.FLOAT, [2])],
        )
        for op in ("Relu", "Neg")
    ]  # fmt: skip
    nodes = [
        oh.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        oh.make_node("Cast", ["total"], ["flag"], to=onnx.TensorProto.BOOL),
        oh.make_node("If", ["flag"], ["y"], then_branch=branch[0], else_branch=branch[1]),
    ]
    value = [oh.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    model = oh.make_model(oh.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=[oh.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, tmp_path / "if.onnx")
    with pytest.raises(GateFailedError, match="rk3588 cannot take it"):
        build(BuildOptions(str(tmp_path / "if.onnx"), "rk3588", tmp_path / "b", "w8a8", threads=1))


def test_an_encoder_runs_on_texts(files: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"queries": files / "queries.jsonl", "threads": 1, "gate": OPEN_GATE}
    for target, tokens in (("host", "tokens"), ("rk3588", 16)):
        result = build(BuildOptions(str(files / "encoder"), target, tmp_path / target, "w8a8", **options))
        bundle = open_bundle(result.bundle)
        assert bundle.manifest.model.config["arch"] == "bert"
        assert bundle.manifest.model.config["inputs"]["input_ids"][1] == tokens
        assert {one.name for one in result.report.layers} >= {"last_hidden_state", "sentence_embedding"}
        assert bundle.tokenizer is not None
        schemes = result.report.schemes
        assert sum(one.bytes_after for one in schemes) == bundle.manifest.files["weights"].bytes
        assert sum(one.bytes_before for one in schemes) == float32_bytes(load_model(str(files / "encoder")))
        assert sum(one.tensors for one in schemes if one.scheme.startswith("int8")) >= 6
        n = 16
        feed = {name: np.ones((1, n), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
        assert bundle.open_graph(threads=1).run(feed)["sentence_embedding"].shape == (1, 64)


def test_what_belongs_to_another_kind_of_model(files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a suite has cases for language models"):
        _net(files, tmp_path / "b", "host", "w8a8", suite=files / "queries.jsonl")
    options = BuildOptions(str(files / "decoder"), "host", tmp_path / "b", "w8a8", samples=files / "images.npz")
    with pytest.raises(InputError, match="llama is a language model: it has no samples"):
        build(options)
