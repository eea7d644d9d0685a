from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.rewrite.passes.input_types import InputTypes
from tests.rewrite.helpers import ops, rewritten, unchanged

SAMPLE = ({"x": np.array([[0, 1, 128, 255]], np.uint8)},)


def test_a_cast_to_float_goes() -> None:
    body = "g (uint8[1,4] x) => (float[1,4] y) { f = Cast<to=1>(x) y = Sqrt(f) }"
    result = rewritten(body, InputTypes(), samples=SAMPLE)
    assert ops(result.model) == ["Sqrt"]
    assert result.model.graph.inputs[0].dtype == ir.DataType.FLOAT
    assert result.steps[0].max_abs_diff == 0.0


def test_any_other_use_is_cast_back() -> None:
    body = "g (uint8[1,4] x) => (float[1,4] y, uint8[1,4] z) { y = Cast<to=1>(x) z = Identity(x) }"
    result = rewritten(body, InputTypes(), samples=SAMPLE)
    assert sorted(ops(result.model)) == ["Cast", "Identity", "Identity"]
    assert result.model.graph.outputs[1].dtype == ir.DataType.UINT8


def test_types_that_are_taken_stay() -> None:
    unchanged("g (int8[4] x) => (float[4] y) { y = Cast<to=1>(x) }", InputTypes())
