"""The faults that people report while converting, in miniature, through the whole build for a Rockchip chip.

Each ends in a compiled file whose simulated outputs equal ONNX Runtime's, or in one line before the toolkit is started.
What needs no toolkit (each rewrite alone, and what names it beforehand) is in tests/rewrite/test_pitfalls.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from chipwise.build import BuildOptions, BuildResult, build
from chipwise.bundle import open_bundle
from chipwise.check.run import check
from chipwise.cli.main import main
from chipwise.target.catalog import load_target
from chipwise.toolchain import Environment
from chipwise.toolchain.environment import FOLDER_VARIABLE
from tests.check.graphs import SELECTED, added, attention, graph, onnx_model, proto, with_initializers

RNG = np.random.default_rng(0)
TARGET = load_target("rk3588")
BRANCHES = "<then_branch=t () => (float[1,64] a) {a = Relu(x)}, else_branch=e () => (float[1,64] b) {b = Neg(x)}>"
PAIRED = (
    "g (float[1,8,2,32] x, float[1,8,1,16] c, float[1,8,1,16] s) => (float[1,8,2,32] y) {"
    " pairs = Constant<value_ints=[1,8,2,16,2]>() p = Reshape(x, pairs) last = Constant<value_ints=[-1]>()"
    " r, i = Split<axis=-1, num_outputs=2>(p) re = Squeeze(r, last) im = Squeeze(i, last)"
    " rc = Mul(re, c) is = Mul(im, s) rs = Mul(re, s) ic = Mul(im, c) a = Sub(rc, is) b = Add(rs, ic)"
    " ua = Unsqueeze(a, last) ub = Unsqueeze(b, last) ab = Concat<axis=-1>(ua, ub)"
    " whole = Constant<value_ints=[1,8,2,32]>() y = Reshape(ab, whole) }"
)


def _filled(name: str, *sizes: int) -> str:
    """Nodes that make a constant of small numbers which differ."""
    shape, count = ", ".join(map(str, sizes)), int(np.prod(sizes))
    return (
        f"z{name} = Constant<value_int=0>() o{name} = Constant<value_int=1>() n{name} = Constant<value_int={count}>()"
        f" i{name} = Range(z{name}, n{name}, o{name}) f{name} = Cast<to=1>(i{name}) p{name} = Sin(f{name})"
        f" q{name} = Constant<value_float=0.1>() m{name} = Mul(p{name}, q{name})"
        f" d{name} = Constant<value_ints=[{shape}]>() {name} = Reshape(m{name}, d{name})"
    )


# What fails without us: the graph, its opset, sizes of its dimensions, and the operators left to the CPU.
CASES: dict[str, tuple[str, int, dict[str, int], set[str]]] = {
    "an opset that is too new": ("g (float[1,64] x) => (float[1,64] y) { y = Gelu(x) }", 21, {}, set()),
    "symbolic dimensions": ("g (float[B,64] x) => (float[B,64] y) { y = Relu(x) }", 17, {"B": 2}, set()),
    "if with a constant condition": (
        f"g (float[1,64] x) => (float[1,64] y) {{ c = Constant<value=bool {{1}}>() y = If(c) {BRANCHES} }}",
        17,
        {},
        set(),
    ),
    "shape, gather, range": (
        "g (float[B,S] x) => (float[B,S] y) { s = Shape(x) i = Constant<value_int=-1>() n = Gather(s, i)"
        " z = Constant<value_int=0>() o = Constant<value_int=1>() r = Range(z, n, o) f = Cast<to=1>(r)"
        " k = Constant<value_float=0.01>() fk = Mul(f, k) y = Add(x, fk) }",
        17,
        {"B": 2, "S": 64},
        set(),
    ),
    "layer normalization without epsilon and axis": (
        "g (float[2,64] x) => (float[2,64] y) { i = Constant<value_ints=[64]>()"
        " s = ConstantOfShape<value=float[1] {2}>(i) y = LayerNormalization(x, s) }",
        17,
        {},
        set(),
    ),
    "negative indices, ends of 2^63-1, numbers in Constant nodes": (
        "g (float[1,4,64] x) => (float[1,1,64] y) { i = Constant<value_int=-1>() l = Gather<axis=1>(x, i)"
        " a = Constant<value_ints=[1]>() u = Unsqueeze(l, a) e = Constant<value_ints=[9223372036854775807]>()"
        " f = Slice(x, a, e, a) m = ReduceMean<axes=[1]>(f) h = Constant<value_float=0.5>() hm = Mul(m, h)"
        " y = Add(u, hm) }",
        17,
        {},
        set(),
    ),
    "uint8 input": ("g (uint8[1,64] x) => (float[1,64] y) { f = Cast<to=1>(x) y = Relu(f) }", 17, {}, set()),
    "inputs of int16 and of double": (
        "g (int16[1,64] x, double[1,64] z) => (float[1,64] y) { f = Cast<to=1>(x) d = Cast<to=1>(z) y = Add(f, d) }",
        17,
        {},
        set(),
    ),
    "constants and softmax in more than four dimensions": (
        "g (float[2,1,2,4,4,32] x) => (float[2,1,2,4,4,32] y) { h = Constant<value_float=0.5>() m = Mul(x, h)"
        " y = Softmax<axis=-1>(m) }",
        17,
        {},
        set(),
    ),
    "erf": ("g (float[2,64] x) => (float[2,64] y) { a = Relu(x) b = Erf(a) y = Relu(b) }", 17, {}, set()),
    "einsum": (
        "g (float[1,2,8,32] x, float[1,2,8,32] z) => (float[1,2,8,8] y)"
        ' { y = Einsum<equation="bhid,bhjd->bhij">(x, z) }',
        17,
        {},
        set(),
    ),
    "rotary embedding of pairs": (PAIRED, 18, {}, set()),
    "int64 arithmetic": (
        "g (float[1,64] x, int64[1,64] i) => (float[1,64] y) { o = Constant<value_int=1>() j = Add(i, o) k = Mul(j, j)"
        " f = Cast<to=1>(k) y = Add(x, f) }",
        17,
        {},
        {"Add", "Cast", "Mul", "Reshape"},
    ),
    "the last state of a GRU alone": (
        f"g (float[5,1,64] x) => (float[1,1,32] h) {{ {_filled('w', 1, 96, 64)} {_filled('r', 1, 96, 32)}"
        " s, h = GRU<hidden_size=32>(x, w, r) }",
        17,
        {},
        set(),
    ),
    "the last cell of an LSTM beside its steps": (
        f"g (float[5,1,64] x) => (float[5,1,1,32] s, float[1,1,32] c) {{ {_filled('w', 1, 128, 64)}"
        f" {_filled('r', 1, 128, 32)} s, h, c = LSTM<hidden_size=32>(x, w, r) }}",
        17,
        {},
        set(),
    ),
    "an input and an output without dimensions": (
        "g (float[1,64] x, float t) => (float[1,64] y, float m) { y = Mul(x, t) m = ReduceMax<keepdims=0>(y) }",
        17,
        {},
        {"ReduceMax"},
    ),
    "borders that no compiler keeps": (
        "g (float[1,64] x, float[1,4] gone) => (float[1,64] y, float[1,64] x, float[1] k)"
        " { y = Relu(x) c = Constant<value_floats=[1.0]>() k = Identity(c) }",
        17,
        {},
        set(),
    ),
    "indices beside their values": (
        "g (float[1,64] x) => (float[1,3] v, int64[1,3] i) { k = Constant<value_ints=[3]>() v, i = TopK(x, k) }",
        17,
        {},
        {"Reshape", "TopK"},
    ),
}


MASKS = {
    "-1e4": attention(added("-1e4")),
    "-1e9": attention(added("-1e9")),
    "-inf": attention(SELECTED),
    "where": attention(SELECTED),
}

# What cannot be helped: the graph, its opset, imports, and the line that says so.
REFUSED: dict[str, tuple[str, int, str, str]] = {
    "if on data": (
        f"g (float[1,64] x, bool c) => (float[1,64] y) {{ y = If(c) {BRANCHES} }}",
        17, "", r"If y: .*branches, loops or sizes tensors by data.*CPU outside the graph",
    ),
    "loop on data": (
        "g (float[1,64] x, int64 n, bool c) => (float[1,64] y) { y = Loop <body=b (int64 i, bool d, float[1,64] a)"
        " => (bool e, float[1,64] f) { e = Identity(d) f = Relu(a) }>(n, c, x) }",
        17, "", r"Loop y: .*branches, loops or sizes tensors by data",
    ),
    "nonzero": (
        "g (float[4] x) => (int64[1,N] y) { y = NonZero(x) }", 17, "", r"NonZero y: .*sizes tensors by data",
    ),
    "range over data": (
        "g (float[1,8] x, int64 n) => (float[1,8] y) { z = Constant<value_int=0>() o = Constant<value_int=1>()"
        " r = Range(z, n, o) f = Cast<to=1>(r) y = Add(x, f) }",
        17, "", r"Range r: .*sizes tensors by data",
    ),
    "a dimension without a size": (
        "g (float[B,64] x) => (float[B,64] y) { y = Relu(x) }", 17, "", r"x\[0\]: .*dimension.*--dim",
    ),
    "an operator without an implementation": (
        "g (float[1,4,4] x) => (float[1] y) { y = Det(x) }", 17, "", r"Det y: .*runs an operator on no unit",
    ),
    "a cubic resize": (
        "g (float[1,2,4,4] x) => (float[1,2,8,8] y) { s = Constant<value_floats=[1.0,1.0,2.0,2.0]>()"
        ' y = Resize<mode="cubic">(x, , s) }',
        17, "", r"Resize y: .*does not survive.*linear or nearest",
    ),
    "an input of texts": (
        "g (string[1] x) => (string[1] y) { y = Identity(x) }",
        17, "", r"x: no input of type STRING.*no chip takes one",
    ),
    "an input without values": (
        "g (float[1,4] x, float[1,0] past) => (float[1,4] y) { y = Concat<axis=1>(past, x) }",
        17, "", r"past: .*holds no values",
    ),
    "nothing to compute": (
        "g (float[1] x) => (float[1] k) { k = Constant<value_floats=[1.0]>() }",
        17, "", r"no output depends on an input",
    ),
    "types that contradict each other": (
        "g (float[1,4] x, int64[1,4] z) => (float[1,4] y) { y = Mul(x, z) }", 17, "", r"m\.onnx: the graph as it came",
    ),
    "only zeros": (
        "g (float[1,4] x) => (float[1,4] y) { k = Constant<value_float=0.0>() y = Mul(x, k) }",
        17, "", r"every output is zero",
    ),
    "a custom operator": (
        "g (float[1,4] x) => (float[1,4] y) { y = own.Thing(x) }", 17, ', "own": 1', r"own\.Thing: .*outside the ONNX",
    ),
}  # fmt: skip


@pytest.fixture
def toolkit(rknn: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets builds find the real toolkit."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))


def _build(model: Path, out: Path, recipe: str = "fp16", target: str = "rk3588", **options: Any) -> BuildResult:
    return build(BuildOptions(str(model), target, out, recipe, threads=1, **options))


def _on_cpu(result: BuildResult) -> set[str]:
    return {f.message.split()[0] for f in result.report.findings if f.rule == "rknn_cpu_operator"}


def _refusal(model: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """The one line on which a build ends before the toolkit is started."""
    code = main(["build", str(model), "--target", "rk3588", "-o", str(model.parent / "b"), "--recipe", "fp16", *more])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert code in (1, 2)
    assert len(lines) == 1
    assert not (model.parent / "b").exists()
    return lines[0]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line_before_the_toolkit_starts(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body, opset, imports, line = REFUSED[name]
    onnx.save(proto(body, opset, imports), tmp_path / "m.onnx")
    assert re.search(line, _refusal(tmp_path / "m.onnx", capsys))


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize("rate", [16000, 8000])
def test_a_branch_chosen_by_a_number_that_is_given_once(rate: int, tmp_path: Path) -> None:
    """As Silero takes its sample rate: the input is gone from the bundle, and one branch is compiled."""
    body = (
        "g (float[1,64] x, int64 sr) => (float[1,64] y) { k = Constant<value_int=16000>() c = Equal(sr, k)"
        f" y = If(c) {BRANCHES} }}"
    )
    onnx.save(proto(body), tmp_path / "m.onnx")
    result = _build(tmp_path / "m.onnx", tmp_path / "b", fixed={"sr": rate})
    assert result.passed
    assert list(open_bundle(tmp_path / "b").manifest.model.config["inputs"]) == ["x"]


def test_complex_numbers_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rotary embedding as torch's complex product: no text form of ONNX has the type, no runtime the kernels."""
    model = proto("g (float[1,8] x, float[1,8] c) => (float[1,8] y) { p = Cast<to=14>(x) y = Cast<to=1>(p) }")
    onnx.save(model, tmp_path / "m.onnx")
    assert re.search(r"Cast p: .*complex numbers.*real numbers \(cos and sin\)", _refusal(tmp_path / "m.onnx", capsys))


def test_weights_that_are_missing_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _half_weights(tmp_path / "m.onnx")
    (tmp_path / "m.data").unlink()
    assert re.search(r"m\.data: the file is missing", _refusal(tmp_path / "m.onnx", capsys))


def _half_weights(path: Path) -> None:
    """Weights in float16, cast while it runs, in a file of their own."""
    model = graph("g (float[1,64] x, float16[64,64] w) => (float[1,64] y) { f = Cast<to=1>(w) y = MatMul(x, f) }")
    with_initializers(model, w=RNG.standard_normal((64, 64)).astype(np.float16))
    ir.save(model, path, external_data="m.data")


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize("name", CASES)
def test_compiled_and_equal(name: str, tmp_path: Path) -> None:
    body, opset, dims, cpu = CASES[name]
    onnx.save(proto(body, opset), tmp_path / "m.onnx")
    result = _build(tmp_path / "m.onnx", tmp_path / "b", dims=dims)
    assert result.passed
    assert _on_cpu(result) == cpu


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
def test_float16_weights_outside_the_file(tmp_path: Path) -> None:
    _half_weights(tmp_path / "m.onnx")
    result = _build(tmp_path / "m.onnx", tmp_path / "b")
    assert result.passed
    assert _on_cpu(result) == set()


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize("name", MASKS)
def test_masks_with_a_row_that_is_masked_altogether(name: str, tmp_path: Path) -> None:
    model = graph(MASKS[name])
    if name == "-inf":  # the text form has no such number
        (number,) = [node for node in model.graph if node.outputs[0].name == "c"]
        number.attributes["value_float"] = ir.AttrFloat32("value_float", float("-inf"))
    ir.save(model, tmp_path / "m.onnx")
    kept = np.ones((6, 1, 6), np.int64)
    kept[1, 0, 3:] = kept[4, 0, 5:] = 0
    kept[0] = 0
    samples = {name: RNG.standard_normal((6, 1, 2, 6, 8), dtype=np.float32) for name in "qkv"}
    np.savez(tmp_path / "s.npz", attention_mask=kept, **samples)
    for recipe in ("fp16", "w8a8"):
        result = _build(tmp_path / "m.onnx", tmp_path / recipe, recipe, samples=tmp_path / "s.npz")
        assert result.passed


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
@pytest.mark.parametrize(("target", "recipe"), [("rk3588", "w8a8"), ("rk3576", "fp16")])
def test_attention_of_one_head_stays_on_the_npu(target: str, recipe: str, tmp_path: Path) -> None:
    weights = {name: RNG.standard_normal((64, 64)).astype(np.float32) / 8 for name in ("wq", "wk", "wv")}
    inputs = ", ".join(f"float[64,64] {name}" for name in weights)
    body = (
        f"g (float[1,16,64] x, {inputs}) => (float[1,16,64] y) {{ q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)"
        " t = Transpose<perm=[0,2,1]>(k) s = MatMul(q, t) h = Constant<value_float=0.125>() d = Mul(s, h)"
        " p = Softmax<axis=-1>(d) y = MatMul(p, v) }"
    )
    ir.save(with_initializers(graph(body), **weights), tmp_path / "m.onnx")
    result = _build(tmp_path / "m.onnx", tmp_path / "b", recipe, target)
    assert result.passed
    assert _on_cpu(result) == set()


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
def test_a_wide_output_layer_stays_on_the_npu(tmp_path: Path) -> None:
    body = "g (float[1,8,32] x, float[32,12288] w) => (float[1,8,12288] y) { y = MatMul(x, w) }"
    model = with_initializers(graph(body), w=RNG.standard_normal((32, 12288)).astype(np.float32) / 4)
    ir.save(model, tmp_path / "m.onnx")
    for recipe in ("fp16", "w8a8"):
        result = _build(tmp_path / "m.onnx", tmp_path / recipe, recipe)
        assert result.passed
        assert not [f for f in result.report.findings if f.rule.startswith("rknn_")]


@pytest.mark.slow
@pytest.mark.usefixtures("toolkit")
def test_one_operator_on_the_cpu_parts_the_graph_and_its_bytes_are_counted(tmp_path: Path) -> None:
    body = (
        "g (float[1,32,8,8] x, float[32,32,1,1] w) => (float[1,32,8,8] y) { a = Conv(x, w) b = Sin(a) y = Conv(b, w) }"
    )
    model = with_initializers(graph(body), w=RNG.standard_normal((32, 32, 1, 1)).astype(np.float32) / 4)
    ir.save(model, tmp_path / "m.onnx")
    (before,) = [f for f in check(onnx_model(tmp_path / "m.onnx"), TARGET) if f.rule == "placement"]
    assert "1 of 3 nodes on the CPU, 2 parts on the accelerator, 16 KiB in 2 tensors cross a run" in before.measured
    result = _build(tmp_path / "m.onnx", tmp_path / "b")
    assert result.passed
    (finding,) = [f for f in result.report.findings if f.rule == "rknn_cpu_operator"]
    # 32 x 8 x 8 values of two bytes, there and back
    assert (finding.where, finding.measured) == ("Sin:b", "CPU, 8192 bytes read and written")
    assert "in 2 segment(s), 1 on the CPU, which read and write 8192 bytes" in result.report.provenance["placement"]
