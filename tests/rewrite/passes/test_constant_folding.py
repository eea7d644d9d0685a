from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.rewrite.passes.constant_folding import ConstantFolding
from chipwise.rewrite.passes.fix_shapes import FixShapes
from tests.check.graphs import graph, proto, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

BRANCHES = "<then_branch=t () => (float[2] a) {a = Relu(x)}, else_branch=e () => (float[2] b) {b = Neg(x)}>"
RANGE = (
    "g (float[B,S] x) => (float[B,S] y) { s = Shape(x) i = Constant<value_int=1>() n = Gather(s, i)"
    " z = Constant<value_int=0>() o = Constant<value_int=1>() r = Range(z, n, o) f = Cast<to=1>(r) y = Add(x, f) }"
)


def test_shape_gather_range_folds_once_shapes_are_fixed() -> None:
    result = rewritten(RANGE, FixShapes(), ConstantFolding(), dims={"B": 2, "S": 8})
    assert ops(result.model) == ["Add"]
    assert result.steps[1].max_abs_diff == 0.0


def test_and_stays_as_long_as_they_are_not() -> None:
    unchanged(RANGE, ConstantFolding())


def test_a_constant_condition_chooses_its_branch() -> None:
    body = f"g (float[2] x) => (float[2] y) {{ c = Constant<value=bool {{0}}>() y = If(c) {BRANCHES} }}"
    assert ops(rewritten(body, ConstantFolding()).model) == ["Neg"]


def test_a_condition_on_data_stays() -> None:
    unchanged(f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c) {BRANCHES} }}", ConstantFolding())


def test_a_mask_filled_by_constant_of_shape_folds() -> None:
    body = (
        "g (float[4,4] x) => (float[4,4] y) { s = Shape(x) m = ConstantOfShape<value=float[1] {-5.0}>(s)"
        " k = Constant<value_int=1>() t = Trilu<upper=1>(m, k) y = Add(x, t) }"
    )
    assert ops(rewritten(body, ConstantFolding()).model) == ["Add"]


def test_a_float16_weight_is_converted_when_it_is_read() -> None:
    model = graph("g (float[2,64] x, float16[64,64] w) => (float[2,64] y) { f = Cast<to=1>(w) y = MatMul(x, f) }")
    with_initializers(model, w=np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16))
    result = rewritten(model, ConstantFolding())
    assert ops(result.model) == ["MatMul"]
    (weight,) = result.model.graph.initializers.values()
    assert weight.dtype == ir.DataType.FLOAT
    assert isinstance(weight.const_value, ir.LazyTensor)
    assert result.steps[0].max_abs_diff == 0.0


def test_own_functions_are_inlined() -> None:
    function = '<domain: "own", opset_import: ["": 17]> Twice (a) => (b) { b = Add(a, a) }'
    body = f"g (float[2] x) => (float[2] y) {{ y = own.Twice(x) }}\n{function}"
    result = rewritten(ir.from_proto(proto(body, imports=', "own": 1')), ConstantFolding())
    assert ops(result.model) == ["Add"]


def test_nothing_to_fold() -> None:
    unchanged("g (float[2] x) => (float[2] y) { y = Relu(x) }", ConstantFolding())
