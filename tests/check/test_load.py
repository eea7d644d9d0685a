from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from chipwise.check.load import load_graph
from chipwise.errors import GraphError
from tests.check.graphs import proto


def test_a_graph_has_its_types(tmp_path: Path) -> None:
    onnx.save(proto("g (float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }"), tmp_path / "m.onnx")
    assert all(value.dtype is not None for node in load_graph(tmp_path / "m.onnx").graph for value in node.outputs)


@pytest.mark.parametrize("content", [b"hello, this is text", b"\x08\x09\x3a\xff\xff"])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(GraphError) as caught:
        load_graph(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="cannot read"):
        load_graph(tmp_path / "none.onnx")
