from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chipwise.build.compiled_decoder import CompiledDecoder, CompiledPart
from chipwise.build.float16_plan import Float16Plan
from chipwise.build.graph_files import GraphFiles
from chipwise.engine import Batch
from chipwise.errors import EngineError
from chipwise.model.model import Model
from chipwise.model.rknn_file import read_rknn_file
from chipwise.quant.float16_choice import Drifted, GroupDamage
from chipwise.quant.product_groups import ProductGroup
from chipwise.report import Finding
from chipwise.toolchain.placement import Placement, Segment, placements_of
from chipwise.toolchain.rknn_log import RknnLayer, read_rknn_log
from tests.build.live import FakeLiveJob
from tests.build.test_portable_graphs import PROMPTS, SHAPE, _graphs

TESTS = Path(__file__).parent.parent
FILE = TESTS / "model" / "rknn" / "conv_rk3566_w8a8.rknn"
FINDING = Finding("rknn_cpu_operator", "warning", "Gather:x", "1", "0", "on the CPU", "nothing")


def _layer(name: str, dtype: str = "FLOAT16", cycles: int = 100) -> RknnLayer:
    return RknnLayer(0, name.split(":")[0], dtype, "NPU", (), (), True, 0, 0, cycles, 0, name)


def _placement(*layers: RknnLayer) -> Placement:
    return Placement((Segment("NPU", layers),), (), None, None)


def _logged(name: str) -> Placement:
    return placements_of(read_rknn_log((TESTS / "toolchain" / "rknn_logs" / f"{name}.log").read_text()))[0]


def _plan(*weights: Sequence[str]) -> Float16Plan:
    kept = [GroupDamage(ProductGroup("v", tuple(names), ("o",), 1000), 0.25) for names in weights]
    return Float16Plan(
        tuple(kept), (*kept, GroupDamage(ProductGroup("u", ("w",), ("p",), 7), 0.0)), Drifted(0.01, 0.98)
    )


@pytest.fixture(scope="module")
def files(even: Model, tmp_path_factory: pytest.TempPathFactory) -> GraphFiles:
    return _graphs(even, tmp_path_factory.mktemp("compiled")).reference()


@pytest.fixture(scope="module")
def decoder(files: GraphFiles) -> CompiledDecoder:
    parts = {
        role: CompiledPart(
            FILE, path, read_rknn_file(FILE), FakeLiveJob(path, peak_bytes=peak),  # type: ignore[arg-type]
            _logged("attention_rk3588_w8a8"), (FINDING,),
        )
        for (role, path), peak in zip(files.files.items(), (5, 9), strict=True)
    }  # fmt: skip
    return CompiledDecoder(parts, SHAPE.context, -30.0, (), None)


def test_a_session_answers_as_the_source_with_its_mask_does(decoder: CompiledDecoder, files: GraphFiles) -> None:
    theirs = files.open(n_slots=1, max_context=40, threads=1)
    ours = decoder.open(n_slots=1, max_context=40, threads=1)
    batch = Batch(0, np.array([PROMPTS[0]]), np.array([0]), "all")
    assert np.allclose(ours.step(batch).logits, theirs.step(batch).logits, atol=1e-5)
    one = Batch(0, np.array([[7]]), np.array([len(PROMPTS[0])]))
    # -30 in place of -10000 lets a masked key have e^-30.
    assert np.allclose(ours.step(one).logits, theirs.step(one).logits, atol=1e-4)
    with pytest.raises(EngineError, match="64 positions, not 65"):
        decoder.open(n_slots=1, max_context=SHAPE.context + 1, threads=1)


def test_sizes_and_times_of_both_parts(decoder: CompiledDecoder) -> None:
    assert decoder.weights_bytes == 2 * FILE.stat().st_size
    assert (decoder.peak_bytes, decoder.duration_s) == (9, 3.0)
    assert decoder.emulates is None


def test_what_the_boards_engine_must_know(decoder: CompiledDecoder) -> None:
    assert decoder.options == {"toolkit_version": "2.5.0", "mask_value": -30.0}


def test_a_window_is_an_option_of_the_engine(gemma: Model, decoder: CompiledDecoder, tmp_path: Path) -> None:
    files = _graphs(gemma, tmp_path).reference()
    parts = {role: replace(decoder.parts[role], source=path) for role, path in files.files.items()}
    assert replace(decoder, parts=parts).options["sliding_window"] == 7


def test_findings_of_both_parts_come_once(decoder: CompiledDecoder) -> None:
    assert decoder.findings == (FINDING,)
    assert decoder.errors == 0
    broken = replace(decoder.parts["decode"], findings=(replace(FINDING, severity="error"),))
    both = replace(decoder, parts={**decoder.parts, "decode": broken})
    assert (len(both.findings), both.errors) == (2, 1)


def test_each_kept_group_is_a_finding_with_its_bytes_and_cycles(decoder: CompiledDecoder) -> None:
    """Of products in float16 alone, by their names in the compiler's table: whole or in parts."""
    layers = [
        _layer("Conv:layers.1.self_attn.q_proj#1", cycles=100), _layer("Conv:layers.1.self_attn.q_proj#2", cycles=20),
        _layer("Conv:layers.1.self_attn.k_proj", cycles=3), _layer("Conv:layers.1.self_attn.v_proj", "INT8", 5000),
        _layer("Conv:layers.11.self_attn.q_proj#1", cycles=9000), _layer("Conv:layers.1.mlp.up_proj_x", cycles=70000),
    ]  # fmt: skip
    parts = {**decoder.parts, "prefill": replace(decoder.parts["prefill"], placement=_placement(*layers))}
    weights = [
        [f"model.layers.1.self_attn.{part}_proj.weight" for part in "qkv"],
        ["model.layers.1.mlp.up_proj.weight"],
    ]
    found = replace(decoder, parts=parts, plan=_plan(*weights)).findings[1:]
    assert [one.rule for one in found] == ["kept_in_float16"] * 2
    assert [one.measured for one in found] == ["1000 bytes more, 123 cycles of a prefill", "1000 bytes more"]
    assert found[0].where == ", ".join(weights[0])
    assert "0.25 nats" in found[0].message
    assert replace(decoder, plan=_plan(*weights)).errors == 0


def test_a_log_without_a_placement_gives_no_cycles(decoder: CompiledDecoder) -> None:
    parts = {role: replace(part, placement=None) for role, part in decoder.parts.items()}
    blind = replace(decoder, parts=parts, plan=_plan(["model.layers.1.mlp.up_proj.weight"]))
    assert blind.findings[-1].measured == "1000 bytes more"
    assert blind.placed() == "prefill: placed where the log does not say; decode: placed where the log does not say"


def test_where_it_runs_in_words(decoder: CompiledDecoder) -> None:
    prefill = replace(decoder.parts["prefill"], placement=_logged("awkward_rk3588_fp16"))
    said = replace(decoder, parts={**decoder.parts, "prefill": prefill}).placed()
    assert "on the CPU (" in said.split("; decode: ")[0]
    assert said.split("; decode: ")[1].endswith("none on the CPU")
    assert decoder.placed().startswith("prefill: ")
