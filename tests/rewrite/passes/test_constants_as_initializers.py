from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from chipwise.check.load import load_graph
from chipwise.errors import GraphError
from chipwise.rewrite.passes.constants_as_initializers import ConstantsAsInitializers
from tests.rewrite.helpers import rewritten, unchanged

FORMS = {
    "value": "value=float {2}",
    "value_float": "value_float=2.0",
    "value_floats": "value_floats=[1.0, 2.0, 3.0, 4.0]",
    "value_int": "value_int=2",
    "value_ints": "value_ints=[1, 2, 3, 4]",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_number(form: str) -> None:
    body = f"g (float[2,4] x) => (float[2,4] y) {{ c = Constant<{FORMS[form]}>() f = Cast<to=1>(c) y = Mul(x, f) }}"
    result = rewritten(body, ConstantsAsInitializers())
    assert [node.op_type for node in result.model.graph] == ["Cast", "Mul"]
    assert list(result.model.graph.initializers) == ["c"]
    assert result.steps[0].notes[0] == "1 Constant nodes became initializers"


def test_in_subgraphs_and_functions() -> None:
    body = (
        "g (float[2] x, bool c) => (float[2] y) { y = If(c) <"
        "then_branch=t () => (float[2] a) {k = Constant<value_float=2.0>() a = Mul(x, k)},"
        " else_branch=e () => (float[2] b) {b = Neg(x)}> }"
    )
    branch = rewritten(body, ConstantsAsInitializers()).model.graph[0].attributes["then_branch"].as_graph()
    assert [node.op_type for node in branch] == ["Mul"]
    called = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x) => (float[2] y) { y = own.twice(x) }'
    defined = (
        '<domain: "own", opset_import: ["" : 17]> twice (v) => (w) { k = Constant<value_float=2.0>() w = Mul(v, k) }'
    )
    result = rewritten(ir.from_proto(onnx.parser.parse_model(called + defined)), ConstantsAsInitializers())
    assert [node.op_type for node in result.model.graph] == ["Mul"]
    assert not result.model.functions
    assert result.steps[0].notes[:2] == ("1 functions inlined", "1 Constant nodes became initializers")


def test_one_that_is_an_output() -> None:
    body = "g (float[2] x) => (float[2] y, float[2] k) { k = Constant<value_floats=[1.0,2.0]>() y = Add(x, k) }"
    result = rewritten(body, ConstantsAsInitializers())
    assert sorted(node.op_type for node in result.model.graph) == ["Add", "Identity"]
    assert [value.name for value in result.model.graph.outputs] == ["y", "k"]


def test_without_constants_nothing_is_done() -> None:
    unchanged("g (float[2] x) => (float[2] y) { y = Relu(x) }", ConstantsAsInitializers())


def test_a_sparse_constant_is_one_line(tmp_path: Path) -> None:
    values, indices = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]), helper.make_tensor("i", 7, [1], [2])
    nodes = [
        helper.make_node("Constant", [], ["c"], sparse_value=helper.make_sparse_tensor(values, indices, [4])),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", given[:1], given[1:])), tmp_path / "m.onnx")
    with pytest.raises(GraphError, match="Sparse tensors are not supported"):
        load_graph(tmp_path / "m.onnx")
