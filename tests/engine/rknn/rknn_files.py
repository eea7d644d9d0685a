"""Compiled files of a format newer than is known here: their JSON names the borders, and a fake computes them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

Shapes = Mapping[str, Sequence[int]]


def rknn_bytes(
    inputs: Shapes, outputs: Shapes, *, targets: Sequence[str] = ("rk3588",), toolkit: str = "2.5.0", salt: str = ""
) -> bytes:
    """A .rknn file of format 7 with these borders; ``salt`` makes two of equal borders differ."""
    tensors, graph = [], []
    for side, other, borders in (("input", "right", inputs), ("output", "right", outputs)):
        for index, (name, shape) in enumerate(borders.items()):
            number = len(tensors)
            tensors.append({"tensor_id": number, "url": name, "size": list(shape)})
            graph.append({"left": side, "left_tensor_id": index, f"{other}_tensor_id": number})
    fields = {
        "target_platform": list(targets),
        "version": toolkit,
        "ori_network_platform": "ONNX",
        "norm_tensor": tensors,
        "graph": graph,
        "salt": salt,
    }
    text = json.dumps(fields).encode()
    return b"RKNN".ljust(8, b"\0") + struct.pack("<QQ", 7, 0) + bytes(40) + struct.pack("<Q", len(text)) + text


def write_rknn(path: Path, inputs: Shapes, outputs: Shapes, **more: object) -> Path:
    path.write_bytes(rknn_bytes(inputs, outputs, **more))  # type: ignore[arg-type]
    return path
