from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.rewrite.passes.widen_floats import WidenFloats
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import rewritten, unchanged


@pytest.mark.parametrize("dtype", [10, 16])
def test_every_value_becomes_float32(dtype: int) -> None:
    name = "float16" if dtype == 10 else "bfloat16"
    body = (
        f"g (float[2,64] x, {name}[64,64] w) => (float[2,64] y) {{ h = Cast<to={dtype}>(x) a = MatMul(h, w)"
        f" n = Constant<value_ints=[2,64]>() z = ConstantOfShape<value={name}[1] {{0}}>(n)"
        " b = Add(a, z) y = Cast<to=1>(b) }"
    )
    model = graph(body)
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(ir.DataType(dtype).numpy())
    with_initializers(model, w=values)
    if dtype == 16:
        # ONNX Runtime's CPU provider has no bfloat16 MatMul to compare with.
        result = WidenFloats().apply(model.clone(), None)  # type: ignore[arg-type]
        assert result.modified
        found = result.model
    else:
        step = rewritten(model, WidenFloats())
        assert step.steps[0].modified, step.steps[0].notes
        found = step.model
    assert {value.dtype for node in found.graph for value in node.outputs} <= {ir.DataType.FLOAT, ir.DataType.INT64}
    weight = found.graph.initializers["w"].const_value
    assert isinstance(weight, ir.LazyTensor)
    np.testing.assert_array_equal(weight.numpy(), values.astype(np.float32))


def test_inputs_and_outputs_change_their_type() -> None:
    result = rewritten("g (float16[2,4] x) => (float16[2,4] y) { y = Relu(x) }", WidenFloats())
    assert [value.dtype for value in (*result.model.graph.inputs, *result.model.graph.outputs)] == [
        ir.DataType.FLOAT
    ] * 2
    assert result.steps[0].max_abs_diff == 0.0


def test_float32_stays() -> None:
    unchanged("g (float[2] x) => (float[2] y) { y = Relu(x) }", WidenFloats())
