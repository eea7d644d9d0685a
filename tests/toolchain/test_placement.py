from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

from chipwise.report import Finding
from chipwise.toolchain.placement import Placement, findings_of, placements_of
from chipwise.toolchain.rknn_findings import _REMEDIES
from chipwise.toolchain.rknn_log import RknnLog, read_rknn_log

LOGS = Path(__file__).parent / "rknn_logs"


def log(name: str) -> RknnLog:
    return read_rknn_log((LOGS / f"{name}.log").read_text(encoding="utf-8"))


def placement(name: str) -> Placement:
    (only,) = placements_of(log(name))
    return only


def findings(name: str) -> tuple[Finding, ...]:
    return findings_of(log(name))


def test_a_graph_wholly_on_the_npu_is_one_segment_without_findings() -> None:
    found = placement("attention_rk3588_w8a8")
    assert (found.npu_segments, found.npu_operators, found.cpu_operators) == (1, 13, ())
    assert findings("attention_rk3588_w8a8") == ()
    assert found.total_cycles == 4 * 282
    assert (found.internal_bytes, found.weight_bytes, found.crossing_bytes) == (8768, 21376, 0)


def test_operators_on_the_cpu_cut_the_graph_and_their_bytes_are_counted() -> None:
    found = placement("awkward_rk3588_fp16")
    assert [(segment.unit, len(segment.layers)) for segment in found.segments] == [
        ("CPU", 1), ("NPU", 3), ("CPU", 1), ("NPU", 2), ("CPU", 2), ("NPU", 1), ("CPU", 1), ("NPU", 1),
    ]  # fmt: skip
    sizes = {one.layer.op_type: (one.read_bytes, one.written_bytes) for one in found.cpu_operators}
    # 16 ids of 8 bytes, 16 rows of 16 float16
    assert sizes["Gather"] == (128, 512)
    assert sizes["Erf"] == (512, 512)
    # the table hides the second output, which is of another type
    assert sizes["TopK"] == (512, None)
    assert sizes["Reshape"] == (512, 512)
    assert sizes["Det"] == (512, 2)
    assert found.crossing_bytes == 640 + 1024 + 1024 + 514


def test_each_operator_on_the_cpu_is_a_warning_with_a_remedy() -> None:
    by_place = {one.where: one for one in findings("awkward_rk3588_fp16")}
    erf = by_place["Erf:erf"]
    assert (erf.rule, erf.severity, erf.limit) == ("rknn_cpu_operator", "warning", "NPU")
    assert erf.measured == "CPU, 1024 bytes read and written"
    assert "erf_by_tanh" in erf.remedy
    assert by_place["TopK:topk"].measured == "CPU, an unknown number of bytes read and written"
    assert "on purpose" in by_place["Gather:embed"].remedy


def test_what_is_not_implemented_is_one_error() -> None:
    found = findings("awkward_rk3588_fp16")
    assert [(one.rule, one.where) for one in found if one.severity == "error"] == [("rknn_no_lowering", "det")]
    assert "Det:det" not in {one.where for one in found}


def test_a_fall_back_for_size_says_so_and_how_often() -> None:
    found = findings("llm_wide_rk3588_w8a8")
    fallbacks = [one for one in found if one.rule == "rknn_fallback"]
    assert ["channel is too large" in one.message for one in fallbacks] == [True, False]
    assert fallbacks[0].measured == "printed 5 times"
    assert fallbacks[1].where == "Transpose"
    assert "transposed result" in fallbacks[0].remedy
    assert {one.severity for one in found} == {"warning"}
    assert placement("llm_wide_rk3588_w8a8").crossing_bytes == 2 * 49152 * 16


def test_a_size_that_fits_no_register_says_what_to_put_out_instead() -> None:
    line = (
        "E RKNN: [03:02:37.389] REGTASK: The bit width of field value exceeds the limit, limit: 0x1fff, value: 0x5fff\n"
    )
    text = (LOGS / "attention_rk3588_w8a8.log").read_text(encoding="utf-8")
    (found,) = findings_of(read_rknn_log(line + text))
    assert (found.rule, found.severity) == ("rknn_message", "warning")
    assert "at most 8192 columns" in found.remedy


def test_a_build_without_a_table_is_no_build() -> None:
    aborted = findings("conv_rk3562_w8a16")
    assert [(one.rule, one.severity) for one in aborted] == [
        ("rknn_no_placement", "error"),
        ("rknn_message", "error"),
    ]
    assert "buffer overflow" in aborted[1].message
    assert placements_of(log("conv_rk3562_w8a16")) == ()


def test_a_type_that_is_not_known_leaves_the_bytes_unknown() -> None:
    whole = log("awkward_rk3588_fp16")
    (graph,) = whole.graphs
    for reads in (tuple(replace(read, dtype="FLOAT8") for read in graph.reads), ()):
        (found,) = placements_of(replace(whole, graphs=(replace(graph, reads=reads),)))
        assert {one.read_bytes for one in found.cpu_operators} == {None}


def test_an_operator_is_found_once_though_each_shape_has_it() -> None:
    whole = log("awkward_rk3588_fp16")
    (graph,) = whole.graphs
    unknown = replace(graph, reads=())
    assert findings_of(replace(whole, graphs=(graph, unknown))) == findings_of(whole)
    assert len(placements_of(log("two_shapes_rk3588_fp16"))) == 2


def test_rewrites_that_remedies_name_exist() -> None:
    named = [name for text in _REMEDIES.values() for name in re.findall(r"rewrite available: (\w+)", text)]
    assert named
    for name in named:
        importlib.import_module(f"chipwise.rewrite.passes.{name}")
