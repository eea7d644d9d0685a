"""Whole builds of a decoder through a toolkit: a stand-in whose simulator computes the source, with faults planted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chipwise.build import BuildOptions, BuildResult, build
from chipwise.bundle import open_bundle
from chipwise.errors import EngineError, InputError, ToolchainError
from tests.build import fake_rknn
from tests.build.models import write_decoder, write_queries
from tests.build.test_decoder_line import OPEN_GATE

STRICT = {**OPEN_GATE, "kl_mean_nats": 1e-9, "top1_agreement": 1.0}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder of one layer, and queries."""
    folder = tmp_path_factory.mktemp("files")
    write_decoder(folder / "decoder", layers=1)
    write_queries(folder / "queries.jsonl")
    return folder


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs the stand-in."""

    def install(**faults: Any) -> Path:
        for name, value in fake_rknn.install(tmp_path / "toolkit", **faults).items():
            monkeypatch.setenv(name, value)
        return tmp_path / "toolkit"

    return install


def _build(files: Path, out: Path, recipe: str = "w8a8", **changes: Any) -> BuildResult:
    fields: dict[str, Any] = {"queries": files / "queries.jsonl", "max_cases": 3, "gate": OPEN_GATE, "threads": 1}
    return build(BuildOptions(str(files / "decoder"), fake_rknn.CHIP, out, recipe, **(fields | changes)))


@dataclass(frozen=True)
class Built:
    """A build, and what the toolkit was asked."""

    result: BuildResult
    folder: Path
    asked: list[dict[str, Any]]


def _built(files: Path, folder: Path, **changes: Any) -> Built:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fake_rknn.install(folder / "toolkit").items():
            patch.setenv(name, value)
        result = _build(files, folder / "b", **changes)
    return Built(result, folder, fake_rknn.seen_live(folder / "toolkit"))


@pytest.fixture(scope="module")
def good(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A decoder that survives 8 bits, as the gate is open."""
    return _built(files, tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="module")
def repaired(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A decoder of which no group of products is good enough for the gate."""
    return _built(files, tmp_path_factory.mktemp("repaired"), gate=STRICT)


def test_the_bundle_holds_both_graphs_for_the_boards_engine(good: Built) -> None:
    assert good.result.passed
    bundle = open_bundle(good.result.bundle)
    manifest = bundle.manifest
    assert (manifest.name, manifest.emulates) == ("decoder-w8a8", None)
    assert {"prefill", "decode", "tokenizer"} <= set(manifest.files)
    assert {bundle.files[role].suffix for role in ("prefill", "decode")} == {".rknn"}
    assert manifest.engine.name == "rknn"
    assert set(manifest.engine.options) == {"toolkit_version", "mask_value"}
    assert -100 < manifest.engine.options["mask_value"] < -10
    assert manifest.self_test is not None
    assert manifest.model.config["max_positions"] % 32 == 0
    assert "compiler_errors" in {verdict.metric for verdict in manifest.verdicts}
    with pytest.raises(InputError, match="Rockchip board"):
        bundle.open_session(1, 64)


def test_the_report_says_what_was_simulated_and_what_was_rewritten(good: Built) -> None:
    report = good.result.report
    assert report.emulates is None
    assert report.not_run[0].what == "run on rk3566"
    assert report.provenance["figures"] == "rk3566 simulated on this machine by rknn-toolkit2 2.5.0"
    assert report.provenance["kept in float16"] == "nothing"
    assert report.provenance["placement"].startswith("prefill: ")
    assert "; decode: " in report.provenance["placement"]
    assert report.provenance["compiled files"].startswith("prefill 20103 bytes, on the board ")
    assert [step.name for step in report.rewrites] == ["fix_shapes", "mask_constant", "prepare_for_rknn"]
    assert max(step.max_abs_difference or 0 for step in report.rewrites) < 1e-3
    names = [step.name for step in report.steps]
    assert {"compile w8a8 prefill", "compile w8a8 decode", "verify w8a8"} <= set(names)
    # What is simulated here is the source itself, in float32.
    assert report.quality is not None
    assert report.quality.answer is not None
    assert report.quality.answer.kl_mean_nats < 1e-6


def test_nothing_is_left_beside_the_bundle(good: Built) -> None:
    assert sorted(path.name for path in good.folder.iterdir()) == ["b", "toolkit"]


def test_each_graph_is_quantized_with_samples_of_its_own_inputs(good: Built) -> None:
    prefill, decode = good.asked
    for asked in (prefill, decode):
        assert asked["values"]["config"] == {
            "target_platform": "rk3566", "quantized_dtype": "w8a8", "quantized_method": "channel",
            "quantized_algorithm": "normal",
        }  # fmt: skip
        assert "float16" not in asked["values"]
        assert len({shape[0] for shape, _ in asked["samples"]}) == 1
        assert [shape[1:] for shape, _ in asked["samples"]] == [shape for _, shape, _ in asked["inputs"]]
    assert "past.0.key" in [name for name, _, _ in decode["inputs"]]
    assert "past.0.key" not in [name for name, _, _ in prefill["inputs"]]


def test_each_group_that_stays_in_float16_is_in_the_report_with_its_bytes(repaired: Built) -> None:
    report = repaired.result.report
    assert [step.name for step in report.rewrites] == [
        "fix_shapes", "mask_constant", "repair_decoder", "prepare_for_rknn",
    ]  # fmt: skip
    assert "rotated" in report.rewrites[2].note
    kept = [finding for finding in report.findings if finding.rule == "kept_in_float16"]
    assert all(finding.severity == "info" and "nats" in finding.message for finding in kept)
    sizes = {finding.where: int(finding.measured.split(" bytes more")[0]) for finding in kept}
    attention = ", ".join(f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv")
    feeds = ", ".join(f"model.layers.0.mlp.{part}_proj.weight" for part in ("gate", "up"))
    assert sizes == {
        attention: 64 * (64 + 32 + 32), "model.layers.0.self_attn.o_proj.weight": 64 * 64, feeds: 2 * 64 * 96,
        "model.layers.0.mlp.down_proj.weight": 64 * 96, "lm_head.weight": 64 * 95,
    }  # fmt: skip
    said = report.provenance["kept in float16"]
    assert said.startswith(f"5 of 5 groups of products, {sum(sizes.values())} bytes more than in 8 bits")


def test_what_stays_in_float16_is_named_to_the_toolkit(repaired: Built) -> None:
    prefill, decode = (asked["values"]["float16"] for asked in repaired.asked)
    assert prefill == decode
    assert set(prefill) == {"op_types", "weights"}
    assert "Softmax" in prefill["op_types"]
    assert {"model.layers.0.self_attn.o_proj.weight", "lm_head.weight"} <= set(prefill["weights"])
    assert len(prefill["weights"]) == 8


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "rounds"), [("w8a8", True), ("w8a8_tensor", False)])
def test_weights_are_rounded_only_to_the_grid_that_the_toolkit_takes(
    recipe: str, rounds: bool, files: Path, tmp_path: Path, toolkit: Any
) -> None:
    folder = toolkit()
    result = _build(files, tmp_path / "b", recipe, gate={**OPEN_GATE, "kl_mean_nats": 1e-3})
    assert ("round weights" in [step.name for step in result.report.steps]) == rounds
    method = fake_rknn.seen_live(folder)[0]["values"]["config"]["quantized_method"]
    assert method == ("channel" if rounds else "layer")


@pytest.mark.slow
def test_float16_needs_no_samples_and_no_repair(files: Path, tmp_path: Path, toolkit: Any) -> None:
    folder = toolkit()
    result = _build(files, tmp_path / "b", "fp16", gate={**OPEN_GATE, "kl_mean_nats": 1e-4})
    assert result.passed
    for asked in fake_rknn.seen_live(folder):
        assert asked["samples"] == []
        assert "quantized_dtype" not in asked["values"]["config"]
        assert "float16" not in asked["values"]
    assert "repair_decoder" not in [step.name for step in result.report.rewrites]


@pytest.mark.slow
@pytest.mark.parametrize("faults", [{"noise": 3.0}, {"gain": -1.0}])
def test_a_simulator_that_disagrees_fails_the_gate(
    faults: dict[str, float], files: Path, tmp_path: Path, toolkit: Any
) -> None:
    toolkit(**faults)
    result = _build(files, tmp_path / "b", "fp16", gate={"kl_mean_nats": 0.05})
    assert not result.passed
    assert result.bundle.name == "b.failed"
    failed = {verdict.metric for verdict in result.report.verdicts if not verdict.passed}
    assert "kl_mean_nats" in failed


@pytest.mark.slow
def test_auto_goes_on_to_the_next_recipe(files: Path, tmp_path: Path, toolkit: Any) -> None:
    """The simulators of the recipe before are ended first."""
    folder = toolkit(gain=-1.0)
    result = _build(files, tmp_path / "b", "auto", gate={**OPEN_GATE, "kl_mean_nats": 0.5})
    assert (result.passed, result.recipe) == (False, "fp16")
    assert result.report.provenance["recipes tried"].startswith("w8a8: gate failed")
    dtypes = [asked["values"]["config"].get("quantized_dtype") for asked in fake_rknn.seen_live(folder)]
    assert dtypes == ["w8a8", "w8a8", None, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "error", "message"),
    [
        ({"abort": 1}, ToolchainError, r"was ended by SIGABRT"),
        ({"dies": 1}, EngineError, r"the simulator failed \(.*the simulator is gone"),
        ({"outputs": 2}, EngineError, r"the simulator returned 2 outputs, the graph has 3"),
    ],
)
def test_a_toolkit_that_fails_ends_in_one_line(
    faults: dict[str, float], error: type[Exception], message: str, files: Path, tmp_path: Path, toolkit: Any
) -> None:
    toolkit(**faults)
    with pytest.raises(error, match=message) as raised:
        _build(files, tmp_path / "b", "fp16")
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["toolkit"]


@pytest.mark.slow
def test_a_file_for_another_chip_is_refused(files: Path, tmp_path: Path, toolkit: Any) -> None:
    toolkit()
    fields: dict[str, Any] = {"queries": files / "queries.jsonl", "max_cases": 3, "gate": OPEN_GATE, "threads": 1}
    with pytest.raises(ToolchainError, match="rknn for rk3588: the compiled file is for rk3566"):
        build(BuildOptions(str(files / "decoder"), "rk3588", tmp_path / "b", "fp16", **fields))


@pytest.mark.slow
def test_an_operator_without_an_implementation_fails_the_build(files: Path, tmp_path: Path, toolkit: Any) -> None:
    toolkit(log="awkward_rk3588_fp16")
    result = _build(files, tmp_path / "b", "fp16")
    assert [verdict.metric for verdict in result.report.verdicts if not verdict.passed] == ["compiler_errors"]
    found = {finding.rule for finding in result.report.findings}
    assert {"rknn_no_lowering", "rknn_cpu_operator"} <= found
