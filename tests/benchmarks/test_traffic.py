from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.traffic import Traffic, gguf_traffic, onnx_traffic


def _tensor(name: str, kind: int, *dims: int) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=kind, dims=dims)


def test_products_are_read_whole_and_gathers_are_not(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMulNBits", ["x", "packed", "scales"], ["y"], domain="com.microsoft"),
        # The same weight twice, as when prefill and decode share it, is read once a step.
        helper.make_node("MatMulNBits", ["y", "packed", "scales"], ["z"], domain="com.microsoft"),
    ]
    past = helper.make_tensor_value_info("past.0.key", TensorProto.FLOAT16, ["b", 3, "context", 64])
    weights = [
        _tensor("table", TensorProto.FLOAT, 1000, 8),
        _tensor("packed", TensorProto.UINT8, 4, 2, 16),
        _tensor("scales", TensorProto.FLOAT, 4, 2),
    ]
    graph = helper.make_graph(nodes, "g", [past], [], weights)
    path = tmp_path / "g.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert onnx_traffic(path) == Traffic(4 * 2 * 16 + 4 * 2 * 4, 3 * 64 * 2)


def _gguf(path: Path, *, tied: bool) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_tensor("token_embd.weight", np.zeros((100, 64), np.float16))
    writer.add_tensor("blk.0.ffn_up.weight", np.zeros((32, 64), np.float16))
    if not tied:
        writer.add_tensor("output.weight", np.zeros((100, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_tied_embedding_is_read_as_the_head(tmp_path: Path) -> None:
    tied, apart = _gguf(tmp_path / "t.gguf", tied=True), _gguf(tmp_path / "a.gguf", tied=False)
    assert gguf_traffic(tied) == gguf_traffic(apart) == Traffic(100 * 64 * 2 + 32 * 64 * 2, 2 * 2 * 2 * 16 * 2)


def test_keys_and_values_grow_with_the_position() -> None:
    assert Traffic(1000, 10).per_token(5.0) == 1050
