from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.check.rules.external_data import external_data
from tests.check.graphs import given_graph, graph, target, with_initializers


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = graph("g (float[2,8] x, float[8,8] w) => (float[2,8] y) { y = MatMul(x, w) }")
    with_initializers(model, w=np.ones((8, 8), np.float32))
    ir.save(model, tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    return tmp_path


def test_whole(saved: Path) -> None:
    assert list(external_data(given_graph(ir.load(saved / "m.onnx"), target()))) == []


def test_missing(saved: Path) -> None:
    (saved / "m.data").unlink()
    (one,) = external_data(given_graph(ir.load(saved / "m.onnx"), target()))
    assert (one.severity, one.where) == ("error", "m.data")


def test_truncated(saved: Path) -> None:
    (saved / "m.data").write_bytes(b"\0" * 100)
    (one,) = external_data(given_graph(ir.load(saved / "m.onnx"), target()))
    assert "behind the end" in one.measured
