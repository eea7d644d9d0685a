from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from chipwise.check.load import load_graph
from chipwise.check.run import check
from chipwise.errors import InputError
from chipwise.rewrite.pass_ import RewriteContext
from chipwise.rewrite.passes.constant_folding import ConstantFolding
from chipwise.rewrite.passes.fix_shapes import FixShapes
from chipwise.rewrite.pipeline import run_passes
from chipwise.target.catalog import load_target
from tests.check.graphs import onnx_model, proto

# As Silero chooses between its two sample rates.
CHOICE = (
    "g (float[1,4] x, int64 sr) => (float[1,4] y) { k = Constant<value_int=16000>() c = Equal(sr, k)"
    " y = If(c) <then_branch=t () => (float[1,4] a) {a = Relu(x)}, else_branch=e () => (float[1,4] b) {b = Neg(x)}> }"
)


def _file(folder: Path, body: str) -> Path:
    onnx.save(proto(body), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize(("rate", "operator"), [(16000, "Relu"), (8000, "Neg")])
def test_a_branch_chosen_by_a_fixed_input_is_all_that_is_left(rate: int, operator: str, tmp_path: Path) -> None:
    path = _file(tmp_path, CHOICE)
    model = load_graph(path, {"sr": rate})
    assert [value.name for value in model.graph.inputs] == ["x"]
    x = np.array([[-1, 2, -3, 4]], np.float32)
    folded = run_passes(model, [FixShapes(), ConstantFolding()], RewriteContext(samples=({"x": x},)))
    assert [node.op_type for node in folded.model.graph] == [operator]
    found = {one.rule for one in check(onnx_model(path), load_target("rk3588"), fixed={"sr": rate})}
    assert "control_flow" in found
    assert not [
        one for one in check(onnx_model(path), load_target("rk3588"), fixed={"sr": rate}) if one.severity == "error"
    ]


def test_all_elements_get_the_value(tmp_path: Path) -> None:
    model = load_graph(_file(tmp_path, "g (float[2] x, float[2] t) => (float[2] y) { y = Mul(x, t) }"), {"t": 0.5})
    tensor = model.graph.initializers["t"].const_value
    assert tensor is not None
    assert tensor.numpy().tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("body", "fixed", "line"),
    [
        (CHOICE, {"rate": 1}, r"--fix: no input 'rate'; there are x, sr"),
        (CHOICE, {"sr": 0.5}, r"--fix: the input sr is int64, which does not hold 0.5"),
        ("g (float[N] x) => (float[N] y) { y = Relu(x) }", {"x": 1}, r"--fix: the input x has a dimension without"),
    ],
)
def test_what_cannot_be_fixed(body: str, fixed: dict[str, float], line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_graph(_file(tmp_path, body), fixed)
    assert line in str(caught.value)
