from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.build.options import BuildOptions
from chipwise.build.samples import Samples, gather_samples
from chipwise.check.load import load_graph
from chipwise.errors import QueryFileError
from chipwise.model.config import EncoderConfig
from chipwise.model.encoder import EncoderSpec, build_encoder
from chipwise.model.importer import load_model
from chipwise.model.tokenizer import Tokenizer

OPTIONS = BuildOptions("m", "host", Path("o"))


@pytest.fixture(scope="module")
def encoder(files: Path) -> tuple[ir.Model, Tokenizer]:
    model = load_model(files / "encoder")
    assert isinstance(model.config, EncoderConfig)
    assert model.tokenizer is not None
    return build_encoder(model.config, model.weights, EncoderSpec()), model.tokenizer


def _texts(files: Path, encoder: tuple[ir.Model, Tokenizer], *, multiple: int | None, longest: int = 64) -> Samples:
    options = replace(OPTIONS, queries=files / "queries.jsonl")
    return gather_samples(options, encoder[0], encoder[1], multiple=multiple, longest=longest)


def test_queries_become_the_inputs_of_a_graph_that_reads_tokens(
    files: Path, encoder: tuple[ir.Model, Tokenizer]
) -> None:
    samples = _texts(files, encoder, multiple=None)
    assert samples.real
    assert (len(samples.calibration), len(samples.held_out)) == (16, 8)
    for feed in samples.calibration:
        ids = feed["input_ids"]
        assert (ids[0, 0], ids[0, -1]) == (3, 4)  # [CLS] ... [SEP]
        assert feed["attention_mask"].all()
        assert feed["token_type_ids"].shape == ids.shape
    assert len({feed["input_ids"].shape for feed in samples.calibration}) > 1


def test_for_fixed_shapes_texts_are_padded_to_one_length(files: Path, encoder: tuple[ir.Model, Tokenizer]) -> None:
    samples = _texts(files, encoder, multiple=8)
    assert {feed["input_ids"].shape for feed in samples.calibration} == {(1, 16)}
    short = min(samples.calibration, key=lambda feed: int(feed["attention_mask"].sum()))
    n = int(short["attention_mask"].sum())
    assert n < 16
    assert not short["input_ids"][0, n:].any()
    assert samples.dims(encoder[0].graph) == {"batch": 1, "tokens": 16}


def test_texts_longer_than_the_graph_takes_are_cut(files: Path, encoder: tuple[ir.Model, Tokenizer]) -> None:
    samples = _texts(files, encoder, multiple=None, longest=6)
    assert max(feed["input_ids"].shape[1] for feed in samples.calibration) == 6


def test_general_queries_stand_in(encoder: tuple[ir.Model, Tokenizer]) -> None:
    samples = gather_samples(OPTIONS, encoder[0], encoder[1], multiple=None)
    assert not samples.real
    assert "general queries" in samples.source


def test_samples_of_the_users_are_kept_apart(files: Path) -> None:
    graph = load_graph(files / "net.onnx")
    samples = gather_samples(replace(OPTIONS, samples=files / "images.npz"), graph, None, multiple=None)
    assert (len(samples.calibration), len(samples.held_out), samples.shared) == (12, 6, False)
    held = {feed["image"].tobytes() for feed in samples.held_out}
    assert not held & {feed["image"].tobytes() for feed in samples.calibration}
    assert samples.dims(graph.graph) == {"batch": 1}
    few = gather_samples(replace(OPTIONS, samples=files / "images.npz", max_cases=2), graph, None, multiple=None)
    assert len(few.held_out) == 2


def test_a_lone_sample_serves_for_both(files: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", image=np.ones((1, 3, 16, 16), np.float32))
    graph = load_graph(files / "net.onnx")
    samples = gather_samples(replace(OPTIONS, samples=tmp_path / "one.npz"), graph, None, multiple=None)
    assert samples.shared
    assert (len(samples.calibration), len(samples.held_out)) == (1, 1)


def test_without_any_they_are_drawn_and_say_so(files: Path) -> None:
    samples = gather_samples(OPTIONS, load_graph(files / "net.onnx"), None, multiple=None)
    assert not samples.real
    assert "drawn at random" in samples.source
    assert samples.held_out[0]["image"].shape == (1, 3, 16, 16)


def test_queries_for_a_graph_that_reads_none(files: Path) -> None:
    options = replace(OPTIONS, queries=files / "queries.jsonl")
    with pytest.raises(QueryFileError, match="the graph reads no tokens"):
        gather_samples(options, load_graph(files / "net.onnx"), None, multiple=None)
