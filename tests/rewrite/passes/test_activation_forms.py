from __future__ import annotations

import onnx_ir as ir
import pytest

from chipwise.check.activations import find_activation
from chipwise.rewrite.pass_ import RewriteContext
from chipwise.rewrite.passes.activation_forms import ActivationForms
from chipwise.rewrite.passes.opset_conversion import opset_of
from tests.check.graphs import graph
from tests.check.test_activations import WAYS
from tests.rewrite.helpers import ops, rewritten, unchanged

OPERATOR = ActivationForms({"gelu": "operator", "gelu_tanh": "operator", "silu": "operator", "mish": "operator"})
WRITTEN = ActivationForms(
    {"gelu": "written_out", "gelu_tanh": "written_out", "silu": "written_out", "mish": "written_out"}
)
NAMES = {"gelu": "Gelu", "gelu_tanh": "Gelu", "silu": "Swish", "mish": "Mish"}
CASES = [(kind, body) for kind, ways in WAYS.items() for body in ways]


def _graph(body: str) -> str:
    return f"g (float[2,4] x) => (float[2,4] y) {{ {body} }}"


@pytest.mark.parametrize(("kind", "body"), CASES)
def test_to_the_operator_and_back(kind: str, body: str) -> None:
    result = rewritten(_graph(body), OPERATOR, opset=24)
    assert ops(result.model) == [NAMES[kind]]
    assert result.steps[0].max_rel_diff < 1e-5
    back = rewritten(result.model, WRITTEN)
    assert len(ops(back.model)) > 1
    found = find_activation(list(back.model.graph)[-1])
    assert found is not None
    assert found.kind == kind
    # The written-out form is a fixed point.
    unchanged(back.model, WRITTEN)


def test_the_opset_is_raised_where_the_operator_needs_it() -> None:
    result = rewritten(_graph(WAYS["gelu"][0]), OPERATOR, opset=17)
    assert opset_of(result.model) == 20
    assert result.steps[0].notes[:2] == ("raised opset 17 to 20", "1 gelu as operator")


def test_only_what_is_named_is_touched() -> None:
    unchanged(_graph(WAYS["silu"][0]), ActivationForms({"gelu": "operator"}), opset=24)
    unchanged(_graph("y = Relu(x)"), OPERATOR)


def test_an_intermediate_that_is_an_output_stays() -> None:
    body = "g (float[4] x) => (float[4] y, float[4] s) { s = Sigmoid(x) y = Mul(x, s) }"
    unchanged(body, OPERATOR, opset=24)


def test_one_behind_the_other() -> None:
    body = "a = Sigmoid(x) b = Mul(x, a) c = Sigmoid(b) d = Mul(b, c) e = Sigmoid(d) y = Mul(d, e)"
    result = rewritten(_graph(body), OPERATOR, opset=24)
    assert ops(result.model) == ["Swish"] * 3
    assert ops(rewritten(result.model, WRITTEN).model) == ["Sigmoid", "Mul"] * 3


def test_constants_take_the_inputs_type() -> None:
    model = graph("g (float16[2,4] x) => (float16[2,4] y) { y = Gelu(x) }", 20)
    result = WRITTEN.apply(model, RewriteContext())
    assert result.modified
    assert {value.dtype for value in result.model.graph.initializers.values()} == {ir.DataType.FLOAT16}
