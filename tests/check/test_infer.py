from __future__ import annotations

import logging

import onnx_ir as ir

from chipwise.check.infer import infer_types, quiet_libraries
from tests.check.graphs import proto


def test_types_and_shapes_are_filled_in() -> None:
    model = ir.from_proto(
        proto("g (float[2,3] x) => (float[N] y) { a = Relu(x) i = Constant<value_ints=[-1]>() y = Reshape(a, i) }")
    )
    infer_types(model)
    relu = next(node for node in model.graph if node.op_type == "Relu")
    assert relu.outputs[0].dtype == ir.DataType.FLOAT
    assert list(relu.outputs[0].shape) == [2, 3]


def test_a_graph_that_cannot_be_inferred_stays() -> None:
    model = ir.from_proto(proto("g (float[2,3] x, float[5,7] w) => (float[M,N] y) { y = MatMul(x, w) }"))
    infer_types(model)
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_levels_come_back() -> None:
    logger = logging.getLogger("onnxscript")
    before = logger.level
    with quiet_libraries():
        assert logger.level == logging.ERROR
    assert logger.level == before
