"""Dequantization: bit-equal to the gguf package for every type, whole and in slices."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from chipwise.errors import ModelFormatError
from chipwise.model.importer import gguf_tensors
from chipwise.model.importer.gguf_header import read_gguf_header
from chipwise.model.importer.gguf_tensors import SUPPORTED_TYPES, GgufTensors
from tests.model.importer.small_models import write_gguf

Type = gguf.GGMLQuantizationType

ROWS, WIDTH = 37, 512

# Where the float16 scales lie in a block, by type: https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-common.h
_SCALE_OFFSETS = {
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
}


def random_blocks(kind: gguf.GGMLQuantizationType, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Rows of random blocks whose scales are finite; every other bit pattern is a valid block."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS, WIDTH // values, size), np.uint8)
    for offset in _SCALE_OFFSETS[kind]:
        scales = rng.normal(0, 0.1, (ROWS, WIDTH // values, 1)).astype(np.float16)
        blocks[..., offset : offset + 2] = scales.view(np.uint8)
    return blocks.reshape(ROWS, -1)


def stored(kind: gguf.GGMLQuantizationType, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    if kind in _SCALE_OFFSETS:
        return random_blocks(kind, rng)
    values = rng.standard_normal((ROWS, WIDTH), dtype=np.float32)
    return np.ascontiguousarray(gguf.quantize(values, kind)).view(np.uint8).reshape(ROWS, -1)


@pytest.fixture(scope="module")
def blocks() -> dict[str, npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(7)
    return {kind.name: stored(kind, rng) for kind in sorted(SUPPORTED_TYPES)}


@pytest.fixture(scope="module")
def raw(blocks: dict[str, npt.NDArray[np.uint8]], tmp_path_factory: pytest.TempPathFactory) -> GgufTensors:
    path = tmp_path_factory.mktemp("types") / "types.gguf"
    write_gguf(path, "llama", {}, dict(blocks), {name: Type[name] for name in blocks})
    return GgufTensors(read_gguf_header(path))


@pytest.mark.parametrize("kind", sorted(SUPPORTED_TYPES), ids=lambda kind: kind.name)
def test_bit_equal_to_the_gguf_package(
    kind: gguf.GGMLQuantizationType, raw: GgufTensors, blocks: dict[str, npt.NDArray[np.uint8]]
) -> None:
    wanted = gguf.dequantize(blocks[kind.name], kind).view(np.uint32)
    assert raw.infos[kind.name].shape == (ROWS, WIDTH)
    assert raw.infos[kind.name].stored_as == kind.name
    assert np.array_equal(raw.rows(kind.name, 0, ROWS).view(np.uint32), wanted)
    for start, stop in [(0, 1), (5, 22), (ROWS - 1, ROWS), (3, 3)]:
        assert np.array_equal(raw.rows(kind.name, start, stop).view(np.uint32), wanted[start:stop])


def test_bit_equal_across_the_seams_of_chunks(
    raw: GgufTensors, blocks: dict[str, npt.NDArray[np.uint8]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_tensors, "_CHUNK_VALUES", 5 * WIDTH)
    wanted = gguf.dequantize(blocks["Q4_K"], Type.Q4_K)
    assert np.array_equal(raw.rows("Q4_K", 0, ROWS), wanted)
    assert np.array_equal(raw.rows("Q4_K", 4, 31), wanted[4:31])


def test_values_of_a_block_by_hand(tmp_path: Path) -> None:
    # Q4_1: scale 0.5 and minimum -1, then 16 bytes whose low half is value i and whose high half is value i + 16
    block = np.array([0.5, -1.0], np.float16).tobytes() + bytes(range(16))
    array = np.frombuffer(block, np.uint8).reshape(1, -1)
    path = write_gguf(tmp_path / "m.gguf", "llama", {}, {"t": array}, {"t": Type.Q4_1})
    got = GgufTensors(read_gguf_header(path)).rows("t", 0, 1)[0]
    assert got.tolist() == [0.5 * i - 1 for i in range(16)] + [-1.0] * 16


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
def test_blocks_are_the_files_bytes(kind: str, raw: GgufTensors, blocks: dict[str, npt.NDArray[np.uint8]]) -> None:
    got = raw.blocks(kind, 2, 9)
    assert got is not None
    assert np.array_equal(got, blocks[kind][2:9])
    got[:] = 0  # a copy: the file stays as it is
    assert np.array_equal(raw.rows(kind, 2, 9), gguf.dequantize(blocks[kind][2:9], Type[kind]))


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_plain_numbers_have_no_blocks(kind: str, raw: GgufTensors) -> None:
    assert raw.blocks(kind, 0, 1) is None


def test_vectors(tmp_path: Path) -> None:
    vector = np.arange(5, dtype=np.float32)
    path = write_gguf(tmp_path / "m.gguf", "llama", {}, {"v": vector})
    raw = GgufTensors(read_gguf_header(path))
    assert raw.rows("v", 0, 5).tolist() == vector.tolist()
    assert raw.rows("v", 1, 3).tolist() == [1, 2]


def test_types_that_are_not_read(tmp_path: Path) -> None:
    size = gguf.GGML_QUANT_SIZES[Type.IQ1_S][1]
    array = np.zeros((1, size), np.uint8)
    path = write_gguf(tmp_path / "m.gguf", "llama", {}, {"t": array}, {"t": Type.IQ1_S})
    with pytest.raises(ModelFormatError, match=r"tensor t is stored as IQ1_S; read are F32.*Q6_K"):
        GgufTensors(read_gguf_header(path))
