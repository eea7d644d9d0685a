from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.errors import RewriteError
from chipwise.model.decoder import GraphSpec, names
from chipwise.model.model import Model
from chipwise.model.onnx_file_writer import save_graph
from chipwise.model.scheme import FLOAT16
from chipwise.quant.float16 import store_float16, store_table_float16
from chipwise.rewrite.decoder_feeds import prompt_feed
from tests.quant.small_graphs import cosine, decoder, linear, run

PROMPT = [5, 9, 4, 7, 33, 12]


def test_weights_are_rounded_and_computed_with_in_float32() -> None:
    weight = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    model, x = linear(weight, np.ones(4)), np.eye(8, dtype=np.float32)
    schemes = store_float16(model)
    assert schemes == {"w": FLOAT16, "b": FLOAT16}
    assert np.array_equal(run(model, {"x": x})["y"], weight.astype(np.float16).astype(np.float32) + 1)
    assert model.graph.initializers["w.packed"].dtype == ir.DataType.FLOAT16
    assert "w" not in model.graph.initializers


@pytest.mark.parametrize("rows", [2, 4000])
def test_what_float16_cannot_hold(rows: int, tmp_path: Path) -> None:
    weight = np.ones((rows, 1))
    weight[-1] = 70_000
    model = linear(weight)
    # A large weight is read when it is written.
    with pytest.raises(RewriteError, match="w: a weight of 7e") as caught:  # noqa: PT012
        store_float16(model)
        save_graph(model, tmp_path, "graph")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_a_whole_decoder(name: str, request: pytest.FixtureRequest) -> None:
    source: Model = request.getfixturevalue(name)
    window = source.config.sliding_window if source.config else None
    model = decoder(source, GraphSpec("prefill", 32))
    feed = prompt_feed(model.graph, PROMPT, window=window)
    wanted = run(model, feed)["logits"]
    schemes = store_float16(model)
    assert cosine(run(model, feed)["logits"], wanted) > 0.99999
    assert not any(
        value.dtype == ir.DataType.FLOAT and value.const_value.size > 64 for value in model.graph.initializers.values()
    )
    assert f"{names.EMBEDDING}.table" in schemes


def test_a_table_apart_from_the_output_layer(llama: Model) -> None:
    model = decoder(llama, GraphSpec("prefill", 32))
    feed = prompt_feed(model.graph, PROMPT)
    wanted = run(model, feed)["logits"]
    assert store_table_float16(model) == {f"{names.EMBEDDING}.table": FLOAT16}
    # The output layer shares the matrix and keeps it.
    assert model.graph.initializers[names.EMBEDDING].dtype == ir.DataType.FLOAT
    assert cosine(run(model, feed)["logits"], wanted) > 0.99999


def test_a_graph_that_looks_nothing_up() -> None:
    assert store_table_float16(linear(np.ones((4, 4)))) == {}
