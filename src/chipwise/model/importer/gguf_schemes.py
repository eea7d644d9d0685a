"""How GGUF's types store a weight, in the words of TensorScheme. Layouts: ggml's ggml-common.h."""

from __future__ import annotations

from gguf.constants import GGMLQuantizationType

from chipwise.errors import ModelFormatError
from chipwise.model.importer.gguf_header import GgufTensor
from chipwise.model.scheme import FLOAT16, FLOAT32, StorageDtype, TensorScheme


def _blocks(bits: int, dtype: StorageDtype, group: int, *, symmetric: bool) -> TensorScheme:
    return TensorScheme(bits, dtype, group, 0, symmetric, "float16", as_given=True)


# Types ending in K scale their scales once more, by block of 256; that is not told here.
_SCHEMES = {
    "F32": FLOAT32,
    "F16": FLOAT16,
    "BF16": TensorScheme(16, "bfloat16"),
    "Q8_0": _blocks(8, "int8", 32, symmetric=True),
    "Q4_0": _blocks(4, "uint4", 32, symmetric=True),
    "Q4_1": _blocks(4, "uint4", 32, symmetric=False),
    "Q5_0": _blocks(5, "uint5", 32, symmetric=True),
    "Q5_1": _blocks(5, "uint5", 32, symmetric=False),
    "Q2_K": _blocks(2, "uint2", 16, symmetric=False),
    "Q3_K": _blocks(3, "int3", 16, symmetric=True),
    "Q4_K": _blocks(4, "uint4", 32, symmetric=False),
    "Q5_K": _blocks(5, "uint5", 32, symmetric=False),
    "Q6_K": _blocks(6, "int6", 16, symmetric=True),
}


def scheme_of(tensor: GgufTensor) -> TensorScheme:
    """How a tensor's values are stored.

    Raises:
        ModelFormatError: By a type that is not read here.
    """
    kind: GGMLQuantizationType = tensor.type
    if kind.name not in _SCHEMES:
        raise ModelFormatError(f"tensor {tensor.name} is stored as {kind.name}, which is not read", where="GGUF")
    return _SCHEMES[kind.name]
