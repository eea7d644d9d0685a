"""Whole builds through a toolkit: a stand-in with planted faults, and the real one where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from chipwise.build import BuildOptions, BuildResult, build
from chipwise.build.rknn_compiler import quantization
from chipwise.bundle import open_bundle
from chipwise.errors import InputError, ToolchainError
from chipwise.model.rknn_file import read_rknn_file
from chipwise.quant.recipe import parse_recipe
from chipwise.toolchain import Environment
from chipwise.toolchain.environment import FOLDER_VARIABLE
from tests.build import fake_rknn
from tests.build.models import write_images


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs the stand-in."""

    def install(**faults: Any) -> Path:
        for name, value in fake_rknn.install(tmp_path / "toolkit", **faults).items():
            monkeypatch.setenv(name, value)
        return tmp_path / "toolkit"

    return install


def _net(files: Path, out: Path, recipe: str = "w8a8", target: str = fake_rknn.CHIP, **changes: Any) -> BuildResult:
    fields: dict[str, Any] = {"samples": files / "images.npz", "threads": 1, "repair": False}
    return build(BuildOptions(str(files / "net.onnx"), target, out, recipe, **(fields | changes)))


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("fp16", {}),
        ("w8a8", {"quantized_dtype": "w8a8", "quantized_method": "channel"}),
        ("w8a8_tensor", {"quantized_dtype": "w8a8", "quantized_method": "layer"}),
        ("w8a16_channel", {"quantized_dtype": "w8a16", "quantized_method": "channel"}),
        ("w4a16_g64", {"quantized_dtype": "w4a16", "quantized_method": "group64"}),
        ("w4a16_channel", {"quantized_dtype": "w4a16", "quantized_method": "channel"}),
    ],
)
def test_a_recipe_in_the_toolkits_words(recipe: str, options: dict[str, str]) -> None:
    expected = {**options, "quantized_algorithm": "normal"} if options else {}
    assert quantization(parse_recipe(recipe)) == expected


def test_the_bundle_carries_the_compiled_file_and_the_simulators_outputs(
    files: Path, tmp_path: Path, toolkit: Any
) -> None:
    folder = toolkit()
    result = _net(files, tmp_path / "b")
    asked, report = fake_rknn.seen(folder), result.report
    assert result.passed
    assert asked["values"]["config"] == {"target_platform": "rk3566", **quantization(parse_recipe("w8a8"))}
    assert asked["count"] == {"calibration": 12, "inputs": 6}
    model = onnx.load(folder / "seen.json.onnx", load_external_data=False)
    assert model.opset_import[0].version <= 19
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 16, 16]

    bundle = open_bundle(result.bundle)
    assert (bundle.manifest.name, bundle.manifest.emulates) == ("net-w8a8", None)
    assert bundle.manifest.engine.name == "rknn"
    assert bundle.manifest.engine.options == {"toolkit_version": "2.5.0"}
    assert bundle.manifest.model.config["outputs"] == {"logits": [1, 6]}
    assert read_rknn_file(bundle.files["graph"]).targets == ("rk3566",)
    assert {"self_test_inputs", "self_test_outputs"} <= set(bundle.files)
    with pytest.raises(InputError, match=r"runs on a Rockchip board"):
        bundle.open_graph()

    assert report.emulates is None
    assert [item.what for item in report.not_run] == ["run on rk3566"]
    assert report.provenance["figures"] == "rk3566 simulated on this machine by rknn-toolkit2 2.5.0"
    assert "operators on the NPU in 1 segment(s), none on the CPU" in report.provenance["placement"]
    assert [step.name for step in report.steps][-2:] == ["compile w8a8", "verify w8a8"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_float16_is_built_without_calibration(files: Path, tmp_path: Path, toolkit: Any) -> None:
    folder = toolkit()
    result = _net(files, tmp_path / "b", "fp16")
    assert result.passed
    assert fake_rknn.seen(folder)["count"] == {"inputs": 6}
    test = open_bundle(result.bundle).manifest.graph_test
    assert test is not None
    assert test.tolerance == 0.02


@pytest.mark.parametrize("faults", [{"noise": 1.0}, {"gain": -1.0}, {"gain": 0.5}, {"gain": 0.0}, {"nan": 1}])
def test_a_simulator_that_disagrees_fails_the_gate(
    faults: dict[str, float], files: Path, tmp_path: Path, toolkit: Any
) -> None:
    """The emulation of the same recipe passes, and is not asked."""
    toolkit(**faults)
    assert _net(files, tmp_path / "emulated", emulate=True).passed
    result = _net(files, tmp_path / "b")
    assert not result.passed
    assert result.bundle.name == "b.failed"
    assert open_bundle(result.bundle).manifest.engine.name == "rknn"
    failed = {verdict.metric for verdict in result.report.verdicts if not verdict.passed}
    assert {"output_cosine", "channel_cosine", "gain_error"} & failed


def test_samples_of_another_domain_are_a_finding(files: Path, tmp_path: Path, toolkit: Any) -> None:
    """The later files of a folder are calibrated with, the first ones verified on."""
    toolkit()
    folder = tmp_path / "samples"
    folder.mkdir()
    for i, spread in enumerate([8.0] * 2 + [1.0] * 6):
        write_images(folder / f"{i}.npz", 1, spread)
    rules = [
        {finding.rule for finding in _net(files, tmp_path / recipe, recipe, samples=folder).report.findings}
        for recipe in ("w8a8", "fp16")
    ]
    assert ["calibration_range" in found for found in rules] == [True, False]


def test_auto_goes_on_to_the_next_recipe(files: Path, tmp_path: Path, toolkit: Any) -> None:
    toolkit(noise=0.3)
    result = _net(files, tmp_path / "b", "auto")
    assert (result.passed, result.recipe) == (False, "fp16")
    assert result.report.provenance["recipes tried"].startswith("w8a8: gate failed")


def test_an_operator_without_an_implementation_is_an_error_and_one_on_the_cpu_a_finding(
    files: Path, tmp_path: Path, toolkit: Any
) -> None:
    toolkit(log="awkward_rk3588_fp16")
    result = _net(files, tmp_path / "b")
    assert [verdict.metric for verdict in result.report.verdicts if not verdict.passed] == ["compiler_errors"]
    found = {finding.where: finding for finding in result.report.findings if finding.rule.startswith("rknn_")}
    assert (found["det"].rule, found["det"].severity) == ("rknn_no_lowering", "error")
    assert (found["Erf:erf"].rule, found["Erf:erf"].severity) == ("rknn_cpu_operator", "warning")
    assert "erf_by_tanh" in found["Erf:erf"].remedy
    assert "the compiler has no implementation of Det" in result.report.provenance["recipes tried"]


def test_a_log_without_a_placement_is_not_believed(files: Path, tmp_path: Path, toolkit: Any) -> None:
    toolkit(log="conv_rk3562_w8a16")
    result = _net(files, tmp_path / "b")
    assert not result.passed
    assert result.report.provenance["placement"].startswith("unknown")


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"abort": 1}, r"was ended by SIGABRT, status 134; its log ends: .*E build: Not Support Dtype: 2"),
        ({"no_file": 1}, r"says it is done but wrote no model\.rknn"),
        ({"samples": 5}, r"returned \[5\] samples of 6"),
        ({"copies": 2}, r"returned 2 outputs, the graph has 1"),
    ],
)
def test_a_toolkit_that_fails_ends_in_one_line(
    faults: dict[str, float], message: str, files: Path, tmp_path: Path, toolkit: Any
) -> None:
    toolkit(**faults)
    with pytest.raises(ToolchainError, match=message) as raised:
        _net(files, tmp_path / "b")
    assert "\n" not in str(raised.value)
    assert "--emulate" in str(raised.value)
    assert raised.value.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["toolkit"]


def test_a_job_that_takes_too_long_is_stopped(files: Path, tmp_path: Path, toolkit: Any) -> None:
    toolkit(sleep_s=60)
    with pytest.raises(ToolchainError, match=r"was stopped after 1\.5 s; .*--job-timeout") as raised:
        _net(files, tmp_path / "b", job_timeout_s=1.5)
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["toolkit"]


def test_a_file_for_another_chip_is_refused(files: Path, tmp_path: Path, toolkit: Any) -> None:
    toolkit()
    with pytest.raises(ToolchainError, match="rknn for rk3588: the compiled file is for rk3566"):
        _net(files, tmp_path / "b", target="rk3588")


@pytest.mark.slow
@pytest.mark.parametrize(("target", "recipe", "on_cpu"), [("rk3588", "w8a8", 1), ("rk3588", "fp16", 1),
                                                          ("rk3576", "w4a16", 0)])  # fmt: skip
def test_a_net_through_the_real_toolkit(
    target: str, recipe: str, on_cpu: int, files: Path, tmp_path: Path, rknn: Environment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    result = _net(files, tmp_path / "b", recipe, target)
    assert result.passed
    assert result.report.layers[0].whole > 0.999
    found = [finding for finding in result.report.findings if finding.rule.startswith("rknn_")]
    assert [finding.rule for finding in found] == ["rknn_cpu_operator"] * on_cpu
    file = read_rknn_file(open_bundle(result.bundle).files["graph"])
    assert file.targets == (target,)
    assert [tensor.name for tensor in file.outputs] == ["logits"]


@pytest.mark.slow
def test_an_encoder_through_the_real_toolkit(
    files: Path, tmp_path: Path, rknn: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inputs are token ids, its outputs of rank 3 and 2."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    options: dict[str, Any] = {"queries": files / "queries.jsonl", "threads": 1}
    result = build(BuildOptions(str(files / "encoder"), "rk3588", tmp_path / "b", "fp16", **options))
    assert result.passed
    assert {one.name for one in result.report.layers} == {"last_hidden_state", "sentence_embedding"}
    assert open_bundle(result.bundle).tokenizer is not None
    assert {finding.rule for finding in result.report.findings} >= {"rknn_cpu_operator"}
