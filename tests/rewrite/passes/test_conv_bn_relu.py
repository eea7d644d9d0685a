from __future__ import annotations

import numpy as np
import onnx_ir as ir

from chipwise.rewrite.passes.conv_bn_relu import ConvBnRelu
from tests.check.graphs import graph, with_initializers
from tests.rewrite.helpers import ops, rewritten, unchanged

RNG = np.random.default_rng(0)
NORM = "float[3] s, float[3] b, float[3] m, float[3] v"


def _weights(model: ir.Model, **more: np.ndarray) -> ir.Model:  # type: ignore[type-arg]
    arrays = {
        "s": RNG.uniform(0.5, 2, 3),
        "b": RNG.standard_normal(3),
        "m": RNG.standard_normal(3),
        "v": RNG.uniform(0.5, 2, 3),
        **more,
    }
    return with_initializers(model, **{name: array.astype(np.float32) for name, array in arrays.items()})


def test_a_normalization_goes_into_the_convolution() -> None:
    body = (
        f"g (float[1,2,5,5] x, float[3,2,3,3] w, {NORM}) => (float[1,3,3,3] y)"
        " { c = Conv(x, w) n = BatchNormalization(c, s, b, m, v) y = Relu(n) }"
    )
    result = rewritten(_weights(graph(body), w=RNG.standard_normal((3, 2, 3, 3))), ConvBnRelu())
    assert ops(result.model) == ["Conv", "Relu"]
    assert result.steps[0].notes[0] == "1 BatchNormalization fused"


def test_into_a_transposed_convolution_and_a_gemm() -> None:
    body = (
        f"g (float[1,2,5] x, float[2,3,2] w, {NORM}) => (float[1,3,6] y)"
        " { c = ConvTranspose(x, w) y = BatchNormalization(c, s, b, m, v) }"
    )
    assert ops(rewritten(_weights(graph(body), w=RNG.standard_normal((2, 3, 2))), ConvBnRelu()).model) == [
        "ConvTranspose"
    ]
    body = (
        f"g (float[4,2] x, float[2,3] w, float[3] o, {NORM}) => (float[4,3] y)"
        " { c = Gemm(x, w, o) y = BatchNormalization(c, s, b, m, v) }"
    )
    model = _weights(graph(body), w=RNG.standard_normal((2, 3)), o=RNG.standard_normal(3))
    assert ops(rewritten(model, ConvBnRelu()).model) == ["Gemm"]


def test_activations_in_a_row_become_one() -> None:
    body = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Relu(a) }"
    assert ops(rewritten(body, ConvBnRelu()).model) == ["Relu"]


def test_a_convolution_with_another_user_stays() -> None:
    body = (
        f"g (float[1,2,5,5] x, float[3,2,3,3] w, {NORM}) => (float[1,3,3,3] y, float[1,3,3,3] c)"
        " { c = Conv(x, w) y = BatchNormalization(c, s, b, m, v) }"
    )
    notes = unchanged(_weights(graph(body), w=RNG.standard_normal((3, 2, 3, 3))), ConvBnRelu())
    assert notes == ("1 BatchNormalization stay",)


def test_nothing_to_fuse() -> None:
    unchanged("g (float[4] x) => (float[4] y) { y = Neg(x) }", ConvBnRelu())
