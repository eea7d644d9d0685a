from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.stored import relocate, sizes
from chipwise.bundle import TensorEntry
from chipwise.errors import OutputError
from chipwise.model.onnx_file_writer import save_graph
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.quant.int_weights import IntGrid, quantize_int_weights
from tests.quant.small_graphs import linear

INT8 = TensorScheme(8, "int8", None, 1, True, "float32")


def test_a_graph_finds_its_weights_under_their_new_name(tmp_path: Path) -> None:
    model = linear(np.random.default_rng(0).normal(size=(64, 32)), np.ones(32))
    schemes = quantize_int_weights(model, IntGrid()) | {"b": FLOAT32, "gone": FLOAT32}
    saved = save_graph(model, tmp_path, "graph")
    assert saved.weights is not None
    entries = relocate(saved.path, "abc.bin", schemes)
    saved.weights.rename(tmp_path / "abc.bin")
    # What is small lies in the graph itself.
    assert list(entries) == ["w"]
    assert (entries["w"].scheme, entries["w"].bytes) == (INT8, 64 * 32)
    packed = ir.load(saved.path).graph.initializers["w.packed"].const_value
    assert packed is not None
    start = entries["w"].offset_bytes or 0
    assert packed.tobytes() == (tmp_path / "abc.bin").read_bytes()[start : start + 64 * 32]


def test_a_full_disk_leaves_the_graph_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = save_graph(linear(np.ones((64, 32)), np.ones(32)), tmp_path, "graph")
    before = saved.path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="no space left"):
        relocate(saved.path, "abc.bin", {})
    assert saved.path.read_bytes() == before


def test_sizes_by_scheme() -> None:
    group = TensorScheme(4, "uint4", 32, 0, False, "float32")
    found = sizes(
        [
            TensorEntry(INT8, "weights", 0, 100),
            TensorEntry(INT8, "weights", 100, 50),
            TensorEntry(group, "weights", 150, 64),
            TensorEntry(FLOAT32, "weights", 214, 40),
            TensorEntry(TensorScheme(8, "int8", None, None, True, "float32"), "weights", 254, 10),
        ]
    )
    words = {one.scheme: (one.tensors, one.bytes_before, one.bytes_after) for one in found}
    assert words == {
        "int8, a channel": (2, 600, 150),
        "uint4, group 32, with zero_point": (1, 512, 64 + 128 // 32 * 4 + 128 // 32 // 2),
        "float32": (1, 40, 40),
        "int8, a tensor": (1, 40, 10),
    }
