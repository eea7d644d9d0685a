from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from chipwise.check.run import check, has_errors
from chipwise.errors import GraphError, InputError
from chipwise.target.catalog import catalog, load_target
from tests.check.graphs import SELECTED, attention, decoder_model, onnx_model, proto


def _save(tmp_path: Path, body: str, opset: int = 17) -> Path:
    onnx.save(proto(body, opset), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_errors_come_first(tmp_path: Path) -> None:
    body = (
        "g (uint8[B,4] x, float[4] s) => (float[B,4] y) { f = Cast<to=1>(x) a = Gelu(f) y = LayerNormalization(a, s) }"
    )
    findings = check(onnx_model(_save(tmp_path, body, 20)), load_target("rk3588"), recipe="w4a16")
    order = ["error", "warning", "info"]
    assert [f.severity for f in findings] == sorted((f.severity for f in findings), key=order.index)
    assert [f.rule for f in findings if f.severity == "error"] == ["scheme", "static_shapes"]
    assert {"opset", "epsilon", "input_types"} <= {f.rule for f in findings if f.severity == "warning"}
    assert has_errors(findings)


def test_a_graph_that_fits_has_no_findings(tmp_path: Path) -> None:
    path = _save(tmp_path, "g (float[2,16] x) => (float[2,16] y) { y = Relu(x) }")
    assert check(onnx_model(path), load_target("rk3588")) == []


def test_every_target_of_the_catalogue_can_be_checked(tmp_path: Path) -> None:
    path = _save(tmp_path, attention(SELECTED))
    for name, target in catalog().items():
        for model in (onnx_model(path), decoder_model()):
            for finding in check(model, target, recipe="w4a16_g64", max_context=1000):
                assert all(text and "\n" not in text for text in finding.to_dict().values()), (name, finding)


@pytest.mark.parametrize("options", [{"max_context": 0}, {"n_streams": 0}, {"recipe": "int8"}])
def test_wrong_wishes(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        check(decoder_model(), load_target("rk3588"), **options)  # type: ignore[arg-type]


def test_auto_is_no_recipe_yet() -> None:
    assert check(decoder_model(), load_target("rk3588"), recipe="auto") == check(decoder_model(), load_target("rk3588"))


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a graph at all")
    with pytest.raises(GraphError):
        check(onnx_model(tmp_path / "m.onnx"), load_target("rk3588"))
