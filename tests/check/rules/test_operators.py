from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.check.rules.operators import (
    custom_operators,
    matmul_length,
    placement,
    resize_mode,
    unknown_placement,
    unsupported_operators,
    wide_output,
)
from chipwise.target.placement import Placement
from tests.check.graphs import SOURCE, fact, given_decoder, given_graph, graph, proto, q, target, with_initializers

TABLE = (
    Placement("npu", ("Relu",), SOURCE),
    Placement("cpu", ("Erf",), SOURCE),
    Placement("unsupported", ("Det", "NonZero"), SOURCE),
)
SPLIT = "g (float[4,8] x) => (float[4,8] y) { a = Relu(x) b = Erf(a) y = Relu(b) }"


def test_placement_counts_parts_and_bytes() -> None:
    (one,) = placement(given_graph(graph(SPLIT), target(placement=TABLE)))
    assert one.severity == "warning"
    assert one.where == "Erf b"
    assert one.measured == "1 of 3 nodes on the CPU, 2 parts on the accelerator, 256 B in 2 tensors cross a run"


def test_one_partition_only() -> None:
    (one,) = placement(given_graph(graph(SPLIT), target(placement=TABLE, partitions_max=q(1))))
    assert one.limit == "at most 1 part on the accelerator"
    assert "all that follows" in one.message


def test_nothing_to_place() -> None:
    relu = graph("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    assert list(placement(given_graph(relu, target(placement=TABLE)))) == []
    assert list(placement(given_graph(graph(SPLIT), target(kind="cpu", placement=TABLE)))) == []
    assert list(placement(given_graph(graph(SPLIT), target()))) == []
    assert list(placement(given_decoder(target(placement=TABLE)))) == []


def test_unsupported_and_unknown() -> None:
    model = graph("g (float[2,2] x) => (float y) { d = Det(x) y = Neg(d) }")
    (bad,) = unsupported_operators(given_graph(model, target(placement=TABLE)))
    assert (bad.severity, bad.where, bad.measured) == ("error", "Det d", "1 Det")
    (open_,) = unknown_placement(given_graph(model, target(placement=TABLE)))
    assert (open_.severity, open_.measured) == ("info", "1 nodes: 1 Neg")


def test_control_flow_is_left_to_its_own_rule() -> None:
    model = graph("g (float[4] x) => (int64[1,N] y) { y = NonZero(x) }")
    assert len(list(unsupported_operators(given_graph(model, target(placement=TABLE))))) == 1
    assert list(unsupported_operators(given_graph(model, target(placement=TABLE, control_flow=fact(False))))) == []


def test_wide_output() -> None:
    (one,) = wide_output(given_decoder(target(out_columns_max=q(999))))
    assert (one.where, one.measured) == ("lm_head", "1000 columns")
    assert list(wide_output(given_decoder(target(out_columns_max=q(1000))))) == []


def test_wide_output_of_a_graph_is_one_that_leaves_it() -> None:
    def found(rows: int) -> list[str]:
        body = f"g (float[{rows},2] x, float[2,9] w) => (float[{rows},9] y) {{ y = MatMul(x, w) }}"
        model = with_initializers(graph(body), w=np.zeros((2, 9), np.float32))
        return [one.measured for one in wide_output(given_graph(model, target(out_columns_max=q(8))))]

    assert found(2) == ["9 columns"]
    assert found(1) == []


def test_matmul_length() -> None:
    (one,) = matmul_length(given_decoder(target(matmul_k_max=q(128))))
    assert (one.where, one.measured, one.severity) == ("mlp.down_proj", "K = 160", "info")
    assert list(matmul_length(given_decoder(target(matmul_k_max=q(160))))) == []


def test_custom_operators() -> None:
    imports = ', "foo": 1, "com.microsoft": 1'
    body = "g (float[2] x) => (float[2] y) { a = foo.Bar(x) y = com.microsoft.Gelu(a) }"
    model = ir.from_proto(proto(body, imports=imports))
    assert [f.where for f in custom_operators(given_graph(model, target()))] == ["foo.Bar", "com.microsoft.Gelu"]
    assert [f.where for f in custom_operators(given_graph(model, target(engine="onnxruntime", kind="cpu")))] == [
        "foo.Bar"
    ]


def test_the_models_own_functions_are_no_custom_operators() -> None:
    function = '<domain: "own", opset_import: ["": 17]> Twice (a) => (b) { b = Add(a, a) }'
    body = f"g (float[2] x) => (float[2] y) {{ y = own.Twice(x) }}\n{function}"
    model = ir.from_proto(proto(body, imports=', "own": 1'))
    assert list(custom_operators(given_graph(model, target()))) == []


def test_a_resize_that_the_toolchain_does_not_survive() -> None:
    body = (
        "g (float[1,2,4,4] x) => (float[1,2,8,8] y)"
        ' { s = Constant<value_floats=[1.0,1.0,2.0,2.0]>() y = Resize<mode="cubic">(x, , s) }'
    )
    on = target(refused_resize_modes=fact(("cubic",)))
    (one,) = resize_mode(given_graph(graph(body), on))
    assert (one.severity, one.measured, one.limit) == ("error", "mode cubic", "not cubic")
    assert list(resize_mode(given_graph(graph(body.replace("cubic", "linear")), on))) == []
    assert list(resize_mode(given_graph(graph(body), target()))) == []
