from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import chipwise.target.host.matmul as matmul
from chipwise.target.host.machine import look


@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_products_are_measured(dtype: str) -> None:
    speed = matmul.matmul_throughput(look(), dtype, "2026-11-29", budget_s=0.0)  # type: ignore[arg-type]
    assert 1e8 < speed.value < 1e15
    assert speed.unit == "op/s"
    assert "onnxruntime" in speed.provenance.source
    assert "best of 3 runs" in speed.note


def test_the_shipped_models_are_those_of_the_script() -> None:
    pytest.importorskip("onnx")
    make_probe_models = importlib.import_module("scripts.make_probe_models")  # imports onnx
    shipped = {path.name: path.read_bytes() for path in (Path(matmul.__file__).parent / "probes").iterdir()}
    assert shipped == {name: model.SerializeToString() for name, model in make_probe_models.models().items()}
