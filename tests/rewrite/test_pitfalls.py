"""The faults that people report while converting, in miniature: each is cured and proven, or named in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from chipwise.check.load import load_graph
from chipwise.check.run import check
from chipwise.errors import GraphError, RewriteError
from chipwise.rewrite.pass_ import RewriteContext
from chipwise.rewrite.pipeline import RewriteResult, run_passes
from chipwise.rewrite.plan import passes_for
from chipwise.target.catalog import load_target
from tests.check.graphs import SELECTED, added, attention, graph, onnx_model, proto, with_initializers
from tests.rewrite.helpers import attention_feed

TARGET = load_target("rk3588")
LIVE = (attention_feed([1, 1, 1, 1, 0, 0]),)
DEAD = (*LIVE, attention_feed([0] * 6))
BRANCHES = "<then_branch=t () => (float[2] a) {a = Relu(x)}, else_branch=e () => (float[2] b) {b = Neg(x)}>"

# What fails, the graph, its opset, and the rules that name it beforehand.
CURED: dict[str, tuple[str, int, set[str]]] = {
    "opset too new": ("g (float[2,4] x) => (float[2,4] y) { y = Gelu(x) }", 21, {"opset"}),
    "symbolic dimensions": ("g (float[B,S] x) => (float[B,S] y) { y = Relu(x) }", 17, {"static_shapes"}),
    "if with a constant condition": (
        f"g (float[2] x) => (float[2] y) {{ c = Constant<value=bool {{1}}>() y = If(c) {BRANCHES} }}",
        17,
        {"control_flow"},
    ),
    "shape, gather, range": (
        "g (float[B,S] x) => (float[B,S] y) { s = Shape(x) i = Constant<value_int=-1>() n = Gather(s, i)"
        " z = Constant<value_int=0>() o = Constant<value_int=1>() r = Range(z, n, o) f = Cast<to=1>(r) y = Add(x, f) }",
        17,
        {"static_shapes"},
    ),
    "layer normalization without epsilon": (
        "g (float[2,4] x, float[4] s) => (float[2,4] y) { y = LayerNormalization(x, s) }",
        17,
        {"epsilon"},
    ),
    "negative gather index": (
        "g (float[2,4] x) => (float[2] y) { i = Constant<value_int=-1>() y = Gather<axis=1>(x, i) }",
        17,
        set(),
    ),
    "slice to the end": (
        "g (float[2,4] x) => (float[2,3] y)"
        " { s = Constant<value_ints=[1]>() e = Constant<value_ints=[9223372036854775807]>()"
        " a = Constant<value_ints=[1]>() y = Slice(x, s, e, a) }",
        17,
        set(),
    ),
    "uint8 input": ("g (uint8[2,4] x) => (float[2,4] y) { f = Cast<to=1>(x) y = Relu(f) }", 17, {"input_types"}),
    "erf": ("g (float[2,4] x) => (float[2,4] y) { a = Relu(x) b = Erf(a) y = Relu(b) }", 17, {"placement"}),
    "added mask of -1e9": (attention(added("-1e9")), 17, {"mask_range"}),
    "selecting mask of -1e4": (attention(SELECTED), 17, {"mask_range"}),
}


def _run(body: str | ir.Model, opset: int = 17, **options: Any) -> RewriteResult:
    model = graph(body, opset) if isinstance(body, str) else body
    return run_passes(model, passes_for(TARGET), RewriteContext(**options))


@pytest.mark.parametrize("name", CURED)
def test_named_beforehand_cured_and_gone_afterwards(name: str, tmp_path: Path) -> None:
    body, opset, rules = CURED[name]
    onnx.save(proto(body, opset), tmp_path / "before.onnx")
    before = {finding.rule for finding in check(onnx_model(tmp_path / "before.onnx"), TARGET)}
    assert rules <= before
    dims = {"B": 2, "S": 8} if "[B,S]" in body else {}
    result = _run(body, opset, dims=dims, samples=LIVE if "attention_mask" in body else ())
    assert any(step.modified for step in result.steps)
    assert not any(step.dropped for step in result.steps)
    assert result.total is not None
    ir.save(result.model, tmp_path / "after.onnx")
    after = {finding.rule for finding in check(onnx_model(tmp_path / "after.onnx"), TARGET)}
    assert not (rules - {"placement"}) & after
    if name == "erf":
        assert "placement" not in after


@pytest.mark.parametrize("mask", [added("-1e9"), added("-1e4"), SELECTED])
def test_fully_masked_rows(mask: str) -> None:
    result = _run(attention(mask), samples=DEAD)
    assert not any(step.dropped for step in result.steps)
    assert "mask_constant" in {step.name for step in result.steps if step.modified}


def test_weights_in_float16_and_outside_the_file(tmp_path: Path) -> None:
    model = graph("g (float[2,64] x, float16[64,64] w) => (float[2,64] y) { f = Cast<to=1>(w) y = MatMul(x, f) }")
    with_initializers(model, w=np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16))
    ir.save(model, tmp_path / "m.onnx", external_data="m.data")
    result = _run(load_graph(tmp_path / "m.onnx"))
    assert [node.op_type for node in result.model.graph] == ["MatMul"]
    ir.save(result.model, tmp_path / "out.onnx", external_data="out.data")
    assert (tmp_path / "out.data").stat().st_size == 64 * 64 * 4
    assert load_graph(tmp_path / "out.onnx").graph.inputs[0].dtype == ir.DataType.FLOAT


def test_einsum_where_the_chip_has_none() -> None:
    model = graph(
        'g (float[2,3,4] x, float[2,4,5] z) => (float[2,3,5] y) { y = Einsum<equation="bij,bjk->bik">(x, z) }'
    )
    result = run_passes(model, passes_for(load_target("ethos-u85")), RewriteContext())
    assert [node.op_type for node in result.model.graph] == ["MatMul"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c) {BRANCHES} }}", "If y"),
        ("g (float[4] x) => (int64[1,N] y) { y = NonZero(x) }", "NonZero y"),
    ],
)
def test_control_flow_on_data_is_named_with_what_can_be_done(body: str, where: str, tmp_path: Path) -> None:
    onnx.save(proto(body), tmp_path / "m.onnx")
    (one,) = [f for f in check(onnx_model(tmp_path / "m.onnx"), TARGET) if f.rule == "control_flow"]
    assert (one.severity, one.where) == ("error", where)
    assert one.remedy


def test_an_operator_that_blocks_the_opset_is_one_line() -> None:
    body = "g (float[1,1,4,4] x, float[1,2,2,2] at) => (float[1,1,2,2] y) { y = GridSample(x, at) }"
    with pytest.raises(RewriteError) as caught:
        run_passes(graph(body, 16), passes_for(load_target("horizon-j5")), RewriteContext())
    assert "GridSample blocks it" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_external_data_is_one_line(tmp_path: Path) -> None:
    model = graph("g (float[B,64] x, float[64,64] w) => (float[B,64] y) { y = MatMul(x, w) }")
    with_initializers(model, w=np.ones((64, 64), np.float32))
    ir.save(model, tmp_path / "m.onnx", external_data="m.data")
    (tmp_path / "m.data").unlink()
    assert "external_data" in {f.rule for f in check(onnx_model(tmp_path / "m.onnx"), TARGET) if f.severity == "error"}
    with pytest.raises((RewriteError, GraphError)) as caught:
        run_passes(load_graph(tmp_path / "m.onnx"), passes_for(TARGET), RewriteContext(dims={"B": 2}))
    assert "\n" not in str(caught.value)
