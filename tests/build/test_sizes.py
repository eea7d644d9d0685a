from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.build.sizes import OTHER, float32_bytes, sizes
from chipwise.build.stored import StoredWeight
from chipwise.bundle import TensorEntry
from chipwise.model.importer import load_model
from chipwise.model.model import Model
from chipwise.model.scheme import FLOAT16, FLOAT32, TensorScheme

UINT4 = TensorScheme(4, "uint4", 32, 0, False, "float32")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def _stored(scheme: TensorScheme, offset: int, n_bytes: int, beside: int = 0) -> StoredWeight:
    ranges = {offset: n_bytes} | ({offset + n_bytes: beside} if beside else {})
    return StoredWeight(TensorEntry(scheme, "weights", offset, n_bytes), n_bytes * 8 // scheme.bits, ranges)


@pytest.fixture
def decoder(files: Path) -> Model:
    return load_model(str(files / "decoder"))


@pytest.fixture
def net(files: Path) -> Model:
    return load_model(str(files / "net.onnx"))


def test_a_file_without_weights_has_no_sizes(decoder: Model) -> None:
    assert sizes(decoder, {}, 0) == ()


def test_both_sums_are_those_of_model_and_file(decoder: Model) -> None:
    found = sizes(decoder, {"model.norm.weight": _stored(FLOAT32, 0, 40)}, 1000)
    assert [(one.scheme, one.tensors, one.bytes_after) for one in found] == [("float32", 1, 40), (OTHER, 0, 960)]
    assert sum(one.bytes_before for one in found) == float32_bytes(decoder)


def test_scales_and_zero_points_count_and_what_is_shared_counts_once(decoder: Model) -> None:
    one = _stored(UINT4, 0, 64, beside=20)
    shared = {"model.layers.0.a.weight": one, "model.layers.1.a.weight": replace(one, ranges={64: 20, 100: 64})}
    (found, rest) = sizes(decoder, shared, 200)
    assert (found.scheme, found.tensors) == ("uint4, group 32, with zero_point", 2)
    assert (found.bytes_before, found.bytes_after) == (2 * 128 * 4, 64 + 20 + 64)
    assert rest.bytes_after == 200 - 148


def test_tables_of_positions_were_no_part_of_the_model(decoder: Model) -> None:
    (table, _) = sizes(decoder, {"rope_cos": _stored(FLOAT32, 0, 400)}, 500)
    assert (table.bytes_before, table.bytes_after) == (0, 400)


@pytest.mark.parametrize("tied", [True, False])
def test_a_matrix_in_two_precisions_counts_once_before(decoder: Model, tied: bool) -> None:
    assert decoder.config is not None
    model = replace(decoder, config=replace(decoder.config, tied_embeddings=tied))  # type: ignore[call-arg]
    stored = {f"{EMBEDDING}.table": _stored(FLOAT16, 0, 64), EMBEDDING: _stored(FLOAT32, 64, 128)}
    stored |= {HEAD: _stored(UINT4, 192, 16)}
    before = {one.scheme: one.bytes_before for one in sizes(model, stored, 208)}
    assert (before["float16"], before["float32"]) == (128, 0)
    assert before["uint4, group 32, with zero_point"] == (0 if tied else 128)


def test_a_tied_head_that_the_file_holds_twice_counts_once(decoder: Model) -> None:
    assert decoder.config is not None
    assert decoder.weights is not None
    twice = float32_bytes(replace(decoder, config=replace(decoder.config, tied_embeddings=False)))  # type: ignore[call-arg]
    once = float32_bytes(replace(decoder, config=replace(decoder.config, tied_embeddings=True)))  # type: ignore[call-arg]
    head = decoder.weights.info(HEAD).shape if HEAD in decoder.weights else (0, 0)
    assert twice - once == 4 * head[0] * head[1]


def test_constants_that_a_rewrite_made_are_no_part_of_a_graph(net: Model) -> None:
    total = float32_bytes(net)
    assert total > 0
    stored = {"w": _stored(UINT4, 0, total // 8), "made": _stored(FLOAT32, total, 4 * total)}
    found = {one.scheme: one for one in sizes(net, stored, 5 * total)}
    assert sum(one.bytes_before for one in found.values()) == total
    assert found["float32"].bytes_before == 0
