"""Traffic: the bytes that decoding one token must read, from the files of each format."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import onnx
from gguf import GGUFReader
from onnx import TensorProto

# Operators whose constant inputs are read whole each step. A gather reads a row.
_PRODUCTS = ("MatMulNBits", "MatMul", "Gemm", "DynamicQuantizeMatMul", "MatMulInteger")
_BITS: dict[int, int] = {
    TensorProto.FLOAT: 32, TensorProto.FLOAT16: 16, TensorProto.UINT8: 8, TensorProto.INT8: 8,
    TensorProto.UINT4: 4, TensorProto.INT4: 4,
}  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """Bytes a token reads.

    Attributes:
        weights_bytes: Weights of all products with their scales and zero_points, as the file stores them. An engine
            may keep them otherwise in memory; this is what the format asks for.
        kv_bytes_per_position: Keys and values of one position.
    """

    weights_bytes: int
    kv_bytes_per_position: int

    def per_token(self, position: float) -> float:
        """Bytes read for a token with ``position`` tokens before it."""
        return self.weights_bytes + self.kv_bytes_per_position * position


def onnx_traffic(graph: Path) -> Traffic:
    """The traffic of an ONNX decoder with inputs ``past...`` of float keys and values."""
    model = onnx.load(graph, load_external_data=False).graph
    sizes = {tensor.name: _bytes(tensor) for tensor in model.initializer}
    read = {name for node in model.node if node.op_type in _PRODUCTS for name in node.input if name in sizes}
    kv = 0
    for value in model.input:
        if value.name.startswith("past"):
            kind = value.type.tensor_type
            _, heads, _, channels = (dim.dim_value for dim in kind.shape.dim)
            kv += heads * channels * _BITS[kind.elem_type] // 8
    return Traffic(sum(sizes[name] for name in read), kv)


def gguf_traffic(path: Path, kv_bytes_per_value: int = 2) -> Traffic:
    """The traffic of a GGUF decoder; llama.cpp keeps keys and values in 16 bits."""
    reader = GGUFReader(path)
    sizes = {tensor.name: tensor.n_bytes for tensor in reader.tensors}
    if "output.weight" in sizes:
        sizes.pop("token_embd.weight", None)  # only a row is read; a tied head reads all of it
    arch = reader.fields["general.architecture"].contents()

    def number(key: str) -> int:
        return int(reader.fields[f"{arch}.{key}"].contents())

    head_dim = number("embedding_length") // number("attention.head_count")
    per_layer = 2 * number("attention.head_count_kv") * head_dim * kv_bytes_per_value
    return Traffic(sum(sizes.values()), number("block_count") * per_layer)


def _bytes(tensor: TensorProto) -> int:
    return math.prod(tensor.dims) * _BITS.get(tensor.data_type, 64) // 8
