"""A bundle whose engine returns NaN from a position on, as a float16 overflow at long contexts would."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import onnx

from chipwise.bundle import open_bundle
from chipwise.bundle.entries import FileEntry
from chipwise.bundle.layout import FILES, MANIFEST, MANIFEST_DIGEST, digest_line
from chipwise.files import sha256_bytes, sha256_file

_TABLE = "rope_cos"


def poisoned(bundle: Path, out: Path, position: int) -> Path:
    """A copy of a bundle whose table of rotations is NaN at one position; its fallback is sound.

    Args:
        bundle: A bundle with a fallback and the engine onnxruntime.
        out: Where the copy goes; replaced.
        position: The position. A text that reaches it has NaN in its logits from there on.
    """
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(bundle, out)
    manifest = open_bundle(bundle).manifest
    table = manifest.tensors[_TABLE]
    width_bytes = table.bytes // int(manifest.model.config["max_positions"])
    start = table.offset_bytes + position * width_bytes
    weights, graph = manifest.files["weights"], manifest.files["decoder"]

    data = bytearray((out / FILES / weights.file).read_bytes())
    data[start : start + width_bytes] = struct.pack("<f", float("nan")) * (width_bytes // 4)
    weights = _replaced(out, weights, bytes(data))
    model = onnx.load(str(out / FILES / graph.file), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = weights.file
    graph = _replaced(out, graph, model.SerializeToString())

    changed = replace(manifest, files={**manifest.files, "weights": weights, "decoder": graph})
    (out / MANIFEST).write_bytes(changed.to_json())
    (out / MANIFEST_DIGEST).write_bytes(digest_line(sha256_file(out / MANIFEST)))
    open_bundle(out)
    return out


def _replaced(bundle: Path, entry: FileEntry, data: bytes) -> FileEntry:
    """Write other content in the place of a file, under the name that its digest gives."""
    old, sha256 = bundle / FILES / entry.file, sha256_bytes(data)
    old.unlink()
    new = FileEntry(sha256 + old.suffix, len(data), sha256)
    (bundle / FILES / new.file).write_bytes(data)
    return new
