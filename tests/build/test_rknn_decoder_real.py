"""Decoders through Rockchip's real toolkit and its simulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.compiled_decoder import CompiledDecoder
from chipwise.build.float16_plan import Aim
from chipwise.build.graph_files import GraphFiles
from chipwise.build.logits_proof import read_logits
from chipwise.build.portable_graphs import PortableGraphs
from chipwise.build.portable_shape import PortableShape
from chipwise.build.repaired_decoder import RepairedDecoder
from chipwise.build.rknn_compiler import quantization, stacks
from chipwise.build.rknn_decoder import RknnDecoderGraphs
from chipwise.build.rknn_source import write_source
from chipwise.build.steps import SilentListener, StepLog
from chipwise.bundle import open_bundle
from chipwise.cli.main import main
from chipwise.engine import Batch
from chipwise.model.config import DecoderConfig
from chipwise.model.importer import load_model
from chipwise.model.rknn_file import read_rknn_file
from chipwise.quant.float16_choice import Drifted, drift_of
from chipwise.quant.recipe import parse_recipe
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.target import load_target
from chipwise.toolchain import Environment, open_job
from chipwise.toolchain.environment import FOLDER_VARIABLE
from chipwise.toolchain.placement import Placement
from chipwise.toolchain.rknn_build import rknn_live_job
from tests.build.cut_decoder import CutWeights, cut_texts

pytestmark = pytest.mark.slow

W8A8 = parse_recipe("w8a8")
_CUT_LAYERS, _CUT_VOCAB = (0, 1, 2, 3), 8192
_CALIBRATION, _HELD_OUT = 16, 12
_SHAPE = PortableShape(tokens=64, context=96)


def _cpu_types(placement: Placement) -> set[str]:
    return {one.layer.op_type for one in placement.cpu_operators}


def test_the_models_own_build_on_the_command_line(
    home_agent: Path, tmp_path: Path, rknn: Environment, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The small agent model survives 8 bits; nothing but the look-up of its embedding leaves the NPU."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    out = tmp_path / "b"
    options = {
        "--target": "rk3588", "--recipe": "w8a8", "--output": str(out), "--queries": str(home_agent / "queries.jsonl"),
        "--suite": str(home_agent / "suite.jsonl"), "--cases": "4",
    }  # fmt: skip
    command = ["build", str(home_agent), *(word for pair in options.items() for word in pair)]
    assert main(command) == 0, capsys.readouterr().out
    bundle = open_bundle(out)
    assert (bundle.manifest.engine.name, bundle.manifest.emulates) == ("rknn", None)
    assert all(verdict.passed for verdict in bundle.manifest.verdicts)
    assert bundle.manifest.self_test is not None
    for role in ("prefill", "decode"):
        assert read_rknn_file(bundle.files[role]).targets == ("rk3588",)
    capsys.readouterr()
    assert main(["inspect", str(out)]) == 0
    assert "rknn" in capsys.readouterr().out
    report = (out / "report.json").read_text("utf-8")
    _, *left = report.split("on the CPU (")
    assert left
    assert all(part.startswith("Gather)") for part in left)


@dataclass
class Cut:
    """A cut of SmolLM2, compiled by ours and by the toolkit alone."""

    reference: GraphFiles
    plain: PortableGraphs
    ours: CompiledDecoder
    toolkit: list[np.ndarray]
    held_out: list[list[int]]


@pytest.fixture(scope="module")
def cut(smollm2_gguf: Path, rknn: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    """Four layers and the first 8192 tokens, to save time: the outlier channels of the whole model are there."""
    model = load_model(smollm2_gguf)
    assert isinstance(model.config, DecoderConfig)
    assert model.weights is not None
    config = replace(model.config, n_layers=len(_CUT_LAYERS), vocab_size=_CUT_VOCAB, max_positions=512)
    weights, texts = CutWeights(model.weights, _CUT_LAYERS, _CUT_VOCAB), cut_texts(model, _CUT_VOCAB)
    calibration, held_out = texts[:_CALIBRATION], texts[-_HELD_OUT:]
    folder, target = tmp_path_factory.mktemp("cut"), load_target("rk3588")
    plain = PortableGraphs(config, weights, _SHAPE, folder, target=target, prompts=calibration, threads=2)
    reference = plain.reference()
    toolkit = _toolkit_alone(plain, reference, calibration, held_out, rknn, folder)
    with ExitStack() as stack:
        # A little more than the tests ask for: other texts agree less than those it chose by.
        graphs = RknnDecoderGraphs(plain, rknn, target, Aim(0.02, 0.96), folder, 2, 3600.0, stack)
        ours = graphs.compiled(W8A8, reference, calibration, StepLog(SilentListener()))
        yield Cut(reference, plain, ours, toolkit, held_out)


def _toolkit_alone(
    plain: PortableGraphs,
    reference: GraphFiles,
    calibration: list[list[int]],
    held_out: list[list[int]],
    rknn: Environment,
    folder: Path,
) -> list[np.ndarray]:
    """The logits of what the toolkit makes of the same prefill graph by itself."""
    target = load_target("rk3588")
    source = write_source(
        RepairedDecoder(plain, reference), target, "alone", folder, prompt=calibration[0], threads=2
    ).files.reads_prompts
    graph = ir.load(source).graph
    samples = stacks(graph, [prompt_feed(graph, text) for text in calibration])
    job = rknn_live_job(
        source, config={"target_platform": "rk3588", **quantization(W8A8)}, calibration=samples, timeout_s=600
    )
    names = [str(value.name) for value in graph.outputs]
    with open_job(rknn, job, keep=folder) as live:
        found = []
        for text in held_out:
            answer = live.call([one[0] for one in stacks(graph, [prompt_feed(graph, text)])])
            found.append(answer[names.index("logits")][: len(text)])
        return found


def _drift(cut: Cut, found: list[np.ndarray]) -> Drifted:
    wanted = [read_logits(cut.reference, text, 2) for text in cut.held_out]
    return drift_of(zip(wanted, found, strict=True))


def _ours(cut: Cut) -> list[np.ndarray]:
    session = cut.ours.open(n_slots=1, max_context=_SHAPE.context, threads=2)
    return [session.step(Batch(0, np.array([text]), np.array([0]), "all")).logits[0].copy() for text in cut.held_out]


def test_what_the_toolkit_alone_breaks_is_repaired(cut: Cut) -> None:
    ours, alone = _drift(cut, _ours(cut)), _drift(cut, cut.toolkit)
    assert ours.agreement >= 0.95, (ours, alone)
    assert ours.kl_nats <= 0.02, (ours, alone)
    assert alone.kl_nats > 10 * ours.kl_nats, (ours, alone)
    assert alone.agreement < 0.8, (ours, alone)


def test_a_token_at_a_time_answers_as_a_whole_prompt_does(cut: Cut) -> None:
    """Decode was quantized by itself, on its own samples."""
    text = cut.held_out[0]
    wanted = read_logits(cut.reference, text, 2)
    session = cut.ours.open(n_slots=1, max_context=_SHAPE.context, threads=2)
    session.step(Batch(0, np.array([text[:-8]]), np.array([0]), "all"))
    found = [
        session.step(Batch(0, np.array([[text[place]]]), np.array([place]))).logits[0]
        for place in range(len(text) - 8, len(text))
    ]
    drifted = drift_of([(wanted[-8:], np.array(found))])
    assert drifted.kl_nats < 0.1
    assert drifted.agreement >= 0.75


def test_layers_and_output_run_on_the_npu_and_the_file_stays_small(cut: Cut) -> None:
    plan = cut.ours.plan
    assert plan is not None
    assert [step.name for step in cut.ours.steps] == ["repair_decoder", "prepare_for_rknn"]
    assert 0 < len(plan.kept) < len(plan.damages)
    for part in cut.ours.parts.values():
        assert part.placement is not None
        assert _cpu_types(part.placement) <= {"Gather"}
        assert part.placement.npu_segments <= 2
        assert not [finding for finding in part.findings if finding.severity == "error"]
    assert sum(finding.rule == "kept_in_float16" for finding in cut.ours.findings) == len(plan.kept)
    # Of a whole model less is kept: a quarter of what is multiplied here is the output layer, which decides between
    # tokens that are nearly as likely.
    assert plan.more_bytes < 0.75 * sum(one.group.weight_count for one in plan.damages)
