from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.toolchain.rknn_log import RknnGraph, RknnLayer, RknnLog, RknnMessage, RknnRead, read_rknn_log

# Recorded from rknn-toolkit2 2.5.0 on graphs of ours; passes that say nothing are cut out.
LOGS = Path(__file__).parent / "rknn_logs"


def text(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def log(name: str) -> RknnLog:
    return read_rknn_log(text(name))


def graph(name: str) -> RknnGraph:
    (only,) = log(name).graphs
    return only


def test_a_row_has_all_its_fields() -> None:
    found = graph("attention_rk3588_w8a8")
    assert found.complete
    assert found.layers[3] == RknnLayer(
        3, "Conv", "INT8", "NPU", ((1, 64, 1, 16), (64, 64, 1, 1), (64,)), ((1, 64, 1, 16),), True,
        282, 128, 282, 5, "Conv:attn/q_proj#2",
    )  # fmt: skip
    assert (found.internal_bytes, found.weight_bytes) == (8768, 21376)
    assert log("attention_rk3588_w8a8").not_lowered == ()


def test_shapes_that_the_table_hides_are_known_to_be_hidden() -> None:
    attention = next(layer for layer in graph("attention_rk3588_w8a8").layers if layer.op_type == "exSDPAttention")
    assert attention.input_shapes == ((2, 32, 1, 16),) * 3
    assert not attention.all_shown


def test_a_chip_with_a_column_more_is_read() -> None:
    found = graph("llm_rk3576_w4a16")
    assert found.complete
    head = next(layer for layer in found.layers if layer.name == "Conv:lm_head#2")
    assert (head.ddr_cycles, head.npu_cycles, head.total_cycles, head.traffic_kb) == (3841, 1024, 3841, 12)


def test_borders_have_no_shape_on_one_side() -> None:
    layers = graph("attention_rk3588_w8a8").layers
    assert (layers[0].op_type, layers[0].input_shapes) == ("InputOperator", ())
    assert (layers[-1].op_type, layers[-1].output_shapes) == ("OutputOperator", ())


def test_what_the_compiler_does_not_implement_stands_after_its_success() -> None:
    found = log("awkward_rk3588_fp16")
    assert "export 0" in text("awkward_rk3588_fp16")
    assert found.not_lowered == (("det", "Det"),)


def test_reads_leave_out_the_compilers_own_copies() -> None:
    reads = graph("awkward_rk3588_fp16").reads
    assert RknnRead(2, "e", "FLOAT16", (1, 16, 16)) in reads
    assert not [read for read in reads if read.tensor.endswith("_exSecondary")]


def test_messages_come_once_with_their_count_and_without_noise() -> None:
    errors = [message for message in log("llm_wide_rk3588_w8a8").messages if message.level == "E"]
    too_large = "channel is too large, may produce thousands of regtask, fallback to cpu!"
    assert errors == [RknnMessage("E", "RKNN", too_large, 5)]
    assert "Unkown op target: 0" in text("awkward_rk3588_fp16")
    assert [message for message in log("awkward_rk3588_fp16").messages if message.level == "E"] == []


def test_a_refusal_names_its_method_and_no_colours() -> None:
    found = log("conv_rk3588_w4a16")
    assert not found.complete
    refusal = "The quantized_dtype = 'w4a16' not support in 'rk3588'!"
    assert [message for message in found.messages if message.level == "E"] == [RknnMessage("E", "config", refusal, 1)]


def test_each_input_shape_has_a_graph_of_its_own() -> None:
    large, small = log("two_shapes_rk3588_fp16").graphs
    assert large.complete
    assert small.complete
    assert [one.layers[0].output_shapes for one in (large, small)] == [((1, 2, 16, 16),), ((1, 2, 8, 8),)]
    assert [layer.name for layer in large.layers] == [layer.name for layer in small.layers]
    assert (large.internal_bytes, small.internal_bytes) == (22016, 5504)
    assert large.reads[0].shape == (1, 2, 16, 16)
    assert small.reads[0].shape == (1, 2, 8, 8)


def test_a_layer_that_the_compiler_adds_may_have_no_name() -> None:
    """As version 2.5.0 printed it for rk3576, before a depthwise convolution in w4a16."""
    line = text("attention_rk3588_w8a8").splitlines()
    first = next(number for number, row in enumerate(line) if "InputOperator:" in row)
    head, name = line[first].split("InputOperator:")
    changed = read_rknn_log("\n".join([*line[:first], head, *line[first + 1 :]]))
    assert name
    assert changed.complete
    assert changed.graphs[0].layers[0].name == ""
    assert changed.graphs[0].layers[1:] == log("attention_rk3588_w8a8").graphs[0].layers[1:]


def test_one_graph_cut_short_spoils_the_whole() -> None:
    whole = text("two_shapes_rk3588_fp16")
    cut = whole[: whole.rindex("OutputOperator:out_b")]
    assert [one.complete for one in read_rknn_log(cut).graphs] == [True, False]
    assert not read_rknn_log(cut).complete


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_other_line_endings_change_nothing(ending: str) -> None:
    assert read_rknn_log(text("awkward_rk3588_fp16").replace("\n", ending)) == log("awkward_rk3588_fp16")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Erf                FLOAT16  CPU", "Erf                FLOAT16  DSP"),
        ("5    Erf ", "4    Erf "),
        ("65/32/65", "65/32"),
    ],
)
def test_a_row_in_a_form_that_is_not_known_makes_the_table_incomplete(old: str, new: str) -> None:
    changed = text("awkward_rk3588_fp16").replace(old, new)
    assert changed != text("awkward_rk3588_fp16")
    assert not read_rknn_log(changed).complete


def test_sizes_of_a_gigabyte_are_printed_with_an_exponent() -> None:
    title = "D RKNN: [01:00:00.000]   Network Layer Information Table  "
    (only,) = read_rknn_log(f"{title}\nD RKNN: [01:00:00.000] Total Weight Memory Size: 1.5e+06KB\n").graphs
    assert only.weight_bytes == 1_536_000_000


def test_a_log_that_is_cut_inside_the_table_is_incomplete() -> None:
    whole = text("attention_rk3588_w8a8")
    start = whole.index("Network Layer Information Table")
    end = whole.index("OutputOperator:attn.y") + len("OutputOperator:attn.y")
    for at in range(start, end, 97):
        assert not read_rknn_log(whole[:at]).complete


@settings(max_examples=60, deadline=None)
@given(data=st.data(), junk=st.text(max_size=30))
def test_damaged_logs_are_read_as_far_as_they_go(data: st.DataObject, junk: str) -> None:
    whole = text("awkward_rk3588_fp16")
    at = data.draw(st.integers(0, len(whole)))
    found = read_rknn_log(whole[:at] + junk + whole[at + data.draw(st.integers(0, 30)) :])
    assert sum(len(one.layers) for one in found.graphs) <= 17


@pytest.mark.parametrize(
    "wild", ["", "\0", "E ", "E RKNN: ", "(" * 50_000, "9" * 10_000, "1 " * 30_000, "\x1b[" * 9_000]
)
def test_wild_text_holds_nothing(wild: str) -> None:
    title = "Network Layer Information Table\n---\nID\n---\n"
    found = read_rknn_log(f"{title}{wild}\n---\nTotal Weight Memory Size: {wild}KB\n")
    assert not found.complete
    assert [one.layers for one in found.graphs] == [()]
