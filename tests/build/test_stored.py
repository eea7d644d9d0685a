from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper as oh
from onnx import numpy_helper as onh

from chipwise.build.stored import relocate
from chipwise.errors import OutputError
from chipwise.model.onnx_file_writer import save_graph
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.quant.int_weights import IntGrid, quantize_int_weights
from chipwise.quant.recipe import parse_recipe
from chipwise.quant.weight_only import quantize_weights
from tests.quant.small_graphs import linear

INT8 = TensorScheme(8, "int8", None, 1, True, "float32")


def test_a_graph_finds_its_weights_under_their_new_name(tmp_path: Path) -> None:
    model = linear(np.random.default_rng(0).normal(size=(64, 32)), np.ones(32))
    schemes = quantize_int_weights(model, IntGrid()) | {"b": FLOAT32, "gone": FLOAT32}
    saved = save_graph(model, tmp_path, "graph")
    assert saved.weights is not None
    stored = relocate(saved.path, "abc.bin", schemes)
    entries = {name: weight.entry for name, weight in stored.items()}
    saved.weights.rename(tmp_path / "abc.bin")
    # What is small lies in the graph itself.
    assert list(entries) == ["w"]
    assert (entries["w"].scheme, entries["w"].bytes) == (INT8, 64 * 32)
    assert stored["w"].values == 64 * 32
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


def test_a_table_in_rows_of_bytes_is_found_with_its_scales(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, scales = rng.integers(0, 255, (512, 64)).astype(np.uint8), rng.normal(size=(512, 2)).astype(np.float32)
    proto = oh.make_model(
        oh.make_graph(
            [oh.make_node("Gather", [f"t.{part}", "i"], [part], axis=0) for part in ("packed_rows", "scales")],
            "g",
            [oh.make_tensor_value_info("i", onnx.TensorProto.INT64, ["n"])],
            [oh.make_tensor_value_info("scales", onnx.TensorProto.FLOAT, None)],
            [onh.from_array(rows, "t.packed_rows"), onh.from_array(scales, "t.scales")],
        )
    )
    saved = save_graph(ir.from_proto(proto), tmp_path, "graph")
    scheme = TensorScheme(8, "uint8", 32, 0, False, "float32")
    stored = relocate(saved.path, "abc.bin", {"t": scheme})["t"]
    assert stored.entry.bytes == stored.values == 512 * 64
    assert sorted(stored.ranges.values()) == [512 * 2 * 4, 512 * 64]


def test_a_weight_on_its_grid_counts_without_its_rests(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).integers(0, 16, (1056, 96)).astype(np.float32)
    model = linear(matrix, np.ones(96))
    recipe = replace(parse_recipe("w4a16_g32"))
    schemes = quantize_weights(model, recipe, keep_grids=True)
    assert schemes["w"].as_given
    saved = save_graph(model, tmp_path, "graph")
    stored = relocate(saved.path, "abc.bin", schemes)["w"]
    assert stored.values == matrix.size
    # 33 groups a row and 2 more for their rests, of 16 bytes each.
    assert stored.entry.bytes == 96 * (33 + 2) * 16
