"""Places: rows out of packed and interleaved tensors, whole and in any slice."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.model.importer.gguf_header import read_gguf_header
from chipwise.model.importer.gguf_tensors import GgufTensors
from chipwise.model.importer.placed_weights import Place, PlacedWeights
from chipwise.model.weights import BlockSource
from tests.model.importer.small_models import llama_permuted, write_gguf

HEADS, HEAD, WIDTH = 3, 8, 32


@pytest.fixture(scope="module")
def q_proj() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((HEADS * HEAD, WIDTH), dtype=np.float32)


@pytest.fixture(scope="module")
def weights(q_proj: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> PlacedWeights:
    kind = gguf.GGMLQuantizationType.Q8_0
    arrays = {
        "interleaved": llama_permuted(q_proj, HEADS),
        "packed": np.concatenate([q_proj, q_proj + 100]),
        "bias": llama_permuted(q_proj[:, 0], HEADS),
        "blocks": gguf.quantize(llama_permuted(q_proj, HEADS), kind),
    }
    path = tmp_path_factory.mktemp("places") / "m.gguf"
    write_gguf(path, "llama", {}, arrays, {"blocks": kind})
    places = {
        "interleaved": Place("interleaved", interleaved_heads=HEADS),
        "bias": Place("bias", interleaved_heads=HEADS),
        "second": Place("packed", HEADS * HEAD, HEADS * HEAD),
        "more": Place("packed", 0, HEADS * HEAD, add=1.0),
        "blocks": Place("blocks", interleaved_heads=HEADS),
        "half": Place("blocks", HEAD, HEAD),
    }
    return PlacedWeights(GgufTensors(read_gguf_header(path)), places)


def test_whole(weights: PlacedWeights, q_proj: np.ndarray) -> None:
    assert np.array_equal(weights.load("interleaved"), q_proj)
    assert np.array_equal(weights.load("bias"), q_proj[:, 0])
    assert np.array_equal(weights.load("second"), q_proj + 100)
    assert np.array_equal(weights.load("more"), q_proj + 1)


@settings(max_examples=60, deadline=None)
@given(start=st.integers(0, HEADS * HEAD), stop=st.integers(0, HEADS * HEAD + 5))
def test_any_slice(weights: PlacedWeights, q_proj: np.ndarray, start: int, stop: int) -> None:
    assert np.array_equal(weights.load_rows("interleaved", start, stop), q_proj[start:stop])
    assert np.array_equal(weights.load_rows("second", start, stop), (q_proj + 100)[start:stop])
    assert np.array_equal(weights.load_rows("bias", start, stop), q_proj[start:stop, 0])


def test_info(weights: PlacedWeights) -> None:
    info = weights.info("second")
    assert info.shape == (HEADS * HEAD, WIDTH)
    assert info.nbytes == HEADS * HEAD * WIDTH * 4
    assert list(weights.names()) == ["interleaved", "bias", "second", "more", "blocks", "half"]
    assert "second" in weights
    assert "packed" not in weights


def test_raw_blocks_come_in_canonical_order(weights: PlacedWeights) -> None:
    found = weights.raw_blocks("blocks")
    assert found is not None
    kind, blocks = found
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(values, weights.load("blocks"))
    half = weights.raw_blocks("half")
    assert half is not None
    assert np.array_equal(gguf.dequantize(half[1], gguf.GGMLQuantizationType.Q8_0), weights.load("half"))


def test_known_as_a_source_of_blocks(weights: PlacedWeights) -> None:
    assert isinstance(weights, BlockSource)


def test_no_raw_blocks_of_plain_or_changed_tensors(weights: PlacedWeights) -> None:
    assert weights.raw_blocks("interleaved") is None
    assert weights.raw_blocks("more") is None


def test_loaded_arrays_are_the_callers(weights: PlacedWeights, tmp_path: Path) -> None:
    first = weights.load("second")
    first[:] = 0
    assert weights.load("second").any()
