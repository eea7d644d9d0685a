from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.rewrite.edit import (
    Patch,
    add_constant,
    all_nodes,
    attribute_int,
    inline_functions,
    lift_constants,
    remove_unused,
)
from tests.check.graphs import graph, proto
from tests.rewrite.helpers import ops

CHAIN = "g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"


def test_replace_inside() -> None:
    model = graph(CHAIN)
    relu, neg = list(model.graph)
    patch = Patch(relu)
    patch.replace(relu.outputs[0], patch.op("Abs", [relu.inputs[0]]))
    remove_unused(model)
    assert ops(model) == ["Abs", "Neg"]
    assert neg.inputs[0].dtype == ir.DataType.FLOAT


def test_replace_an_output_keeps_its_name_and_type() -> None:
    model = graph(CHAIN)
    neg = list(model.graph)[-1]
    patch = Patch(neg)
    patch.replace(neg.outputs[0], patch.op("Abs", [neg.inputs[0]]))
    remove_unused(model)
    (output,) = model.graph.outputs
    assert (output.name, output.dtype, list(output.shape)) == ("y", ir.DataType.FLOAT, [2])
    assert ops(model) == ["Relu", "Abs"]


def test_an_output_that_becomes_an_input_gets_an_identity() -> None:
    model = graph(CHAIN)
    neg = list(model.graph)[-1]
    Patch(neg).replace(neg.outputs[0], model.graph.inputs[0])
    remove_unused(model)
    assert ops(model) == ["Identity"]
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["x", "y"]


def test_behind_puts_nodes_in_order() -> None:
    model = graph(CHAIN)
    patch = Patch.behind(model.graph[0])
    first = patch.op("Abs", [model.graph[0].outputs[0]])
    patch.op("Exp", [first])
    assert ops(model) == ["Relu", "Abs", "Exp", "Neg"]


def test_constants_have_fresh_names() -> None:
    model = graph(CHAIN)
    names = [add_constant(model.graph, np.ones(1)).name for _ in range(3)]
    assert len(set(names)) == 3
    assert Patch(model.graph[0]).constant(2, ir.DataType.FLOAT16).dtype == ir.DataType.FLOAT16
    assert add_constant(model.graph, np.float32(1.0)).shape == ir.Shape([])


def test_functions_and_constants() -> None:
    function = '<domain: "own", opset_import: ["": 17]> Twice (a) => (b) { b = Add(a, a) }'
    body = "g (float[2] x) => (float[2] y) { c = Constant<value_float=1.0>() z = Mul(x, c) y = own.Twice(z) }"
    model = ir.from_proto(proto(f"{body}\n{function}", imports=', "own": 1'))
    assert [node.op_type for node in all_nodes(model)] == ["Constant", "Mul", "Twice", "Add"]
    inline_functions(model)
    lift_constants(model)
    assert [node.op_type for node in model.graph] == ["Mul", "Add"]
    assert not model.functions
    assert "own" not in model.graph.opset_imports


def test_attribute_int() -> None:
    node = graph("g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }").graph[0]
    assert attribute_int(node, "axis", -1) == 1
    assert attribute_int(node, "other", 7) == 7
