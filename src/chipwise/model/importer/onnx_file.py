"""An ONNX file as a Model: checked to be whole, and left as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx.external_data_helper import uses_external_data

from chipwise.errors import ModelFormatError
from chipwise.model.importer.file_checks import check_file
from chipwise.model.importer.hf_tokenizer import hf_chat_template, hf_tokenizer
from chipwise.model.importer.licence import stated_licence
from chipwise.model.model import Model, ModelSource

# Protocol buffers hold at most 2 GiB in one message.
_MAX_FILE_BYTES = (1 << 31) - 1
_AGAIN = "download or export it again"


def load_onnx(path: Path) -> Model:
    """Check an ONNX file and its external data; take the tokenizer that lies beside it.

    Raises:
        ModelFormatError: The file or its external data is missing, truncated, a Git-LFS pointer or too large.
    """
    size = check_file(path)
    if size > _MAX_FILE_BYTES:
        raise ModelFormatError(
            f"the file has {size:,} bytes, an ONNX file holds {_MAX_FILE_BYTES:,}",
            where=str(path),
            remedy="save the model with external data",
        )
    for tensor in _all_tensors(_parsed(path).graph):
        if uses_external_data(tensor):
            _check_external(tensor, path)
    folder = _tokenizer_folder(path)
    return Model(
        source=ModelSource("onnx", path, path.stem, stated_licence(folder)),
        tokenizer=hf_tokenizer(folder),
        chat_template=hf_chat_template(folder),
        onnx_path=path,
    )


def _parsed(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError, ValueError) as e:
        raise ModelFormatError("the file is truncated or no ONNX file", where=str(path), remedy=_AGAIN) from e
    # protobuf reads a file cut between two fields without complaint: the operator sets come after the graph
    if not model.graph.node or not model.opset_import:
        raise ModelFormatError(
            "the file is truncated: it has no nodes or no operator set",
            where=str(path),
            remedy=_AGAIN,
        )
    return model


def _all_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor: initializers and constants, those of subgraphs included."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs):
                yield from _all_tensors(inner)


def _check_external(tensor: onnx.TensorProto, path: Path) -> None:
    place = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = int(place.get("offset", 0)), int(place.get("length", 0))
        bits = ir.DataType(tensor.data_type).bitwidth
        data = path.parent / place["location"]
        # A name no file can have (a NUL byte, a loop of links) is refused by the system, not by Path.
        inside = data.resolve().is_relative_to(path.parent.resolve())
    except (KeyError, TypeError, ValueError, OSError, RuntimeError) as e:
        raise ModelFormatError(
            f"tensor {tensor.name} has damaged external data ({e})", where=str(path), remedy=_AGAIN
        ) from e
    if min(offset, length, *tensor.dims) < 0:
        raise ModelFormatError(
            f"tensor {tensor.name} has damaged external data (a size below 0)", where=str(path), remedy=_AGAIN
        )
    if not inside:
        raise ModelFormatError(
            f"tensor {tensor.name} lies in {str(data)!r}, outside the model's folder",
            where=str(path),
            remedy="save the model with its external data beside it",
        )
    size = check_file(data)
    needed = -(-math.prod(tensor.dims) * bits // 8)
    end = offset + max(needed, length)
    if end > size:
        raise ModelFormatError(
            f"the external data is truncated: tensor {tensor.name} ends at byte {end:,} of {size:,}",
            where=str(data),
            remedy=_AGAIN,
        )


def _tokenizer_folder(path: Path) -> Path:
    """Beside the file, or one up where the hub's layout puts the graph in a folder ``onnx``."""
    beside = path.parent
    nested = beside.name == "onnx" and not (beside / "tokenizer.json").exists()
    return beside.parent if nested else beside
