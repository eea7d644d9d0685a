from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.errors import InputError
from chipwise.model.model import Model
from chipwise.quant.affine import Affine
from chipwise.quant.pairs import add_initializer, insert_pair
from chipwise.report.attribution import Attribution
from chipwise.verify.attribution.decoder_pair import DecoderPair
from chipwise.verify.attribution.measure import attribute
from chipwise.verify.attribution.phase import Text
from tests.verify.attribution.pairs import TEXT, Graphs, fixed_pair, fused, noisy, pair


def attributed(
    folder: Path, model: Model, edit: Callable[[Graphs], None] | None, written: Callable[..., Any] = pair
) -> Attribution:
    files = written(folder, model), written(folder, model, "candidate", edit)
    return attribute(DecoderPair(*files, threads=1), [TEXT])


def values(graphs: Graphs, name: str) -> list[tuple[ir.Graph, ir.Value]]:
    return [
        (graph.graph, value)
        for graph in graphs.values()
        for node in list(graph.graph)
        for value in node.outputs
        if value.name == name
    ]


def test_nothing_is_blamed_where_nothing_is_damaged(llama: Model, tmp_path: Path) -> None:
    found = attributed(tmp_path, llama, None)
    assert found.culprit == ""
    assert found.faults == found.tensors == ()
    assert found.kl_nats == 0
    assert {(one.own_error, one.inherited_error, one.kl_in_nats) for one in found.layers} == {(0, 0, 0)}


@pytest.mark.parametrize(
    ("weights", "layer", "kind", "written"),
    [
        ("layers.1.mlp.down_proj", "layers.1.feed_forward", "llama", pair),
        ("layers.0.self_attn.o_proj", "layers.0.attention", "gemma", fixed_pair),
        ("model.norm", "output", "gemma", fused),
    ],
)
def test_the_layer_whose_weights_are_spoilt_is_named(
    weights: str, layer: str, kind: str, written: Callable[..., Any], request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:  # fmt: skip
    found = attributed(tmp_path, request.getfixturevalue(kind), noisy(weights), written)
    assert [fault.name for fault in found.faults] == [layer]
    first, *others = found.layers
    assert (first.layer, first.inherited_error) == (layer, 0)
    assert first.own_error > 0.05
    # Alone it does all the damage, and without it none is left.
    assert first.kl_in_nats == pytest.approx(found.kl_nats)
    assert first.kl_out_nats == 0
    assert {(one.own_error, one.kl_in_nats) for one in others} == {(0, 0)}
    assert found.carrying() == (first,)


def test_errors_are_inherited_behind_the_layer_and_not_before(llama: Model, tmp_path: Path) -> None:
    found = attributed(tmp_path, llama, noisy("layers.0.mlp.down_proj"))
    inherited = {one.layer: one.inherited_error for one in found.layers}
    assert inherited["layers.0.attention"] == inherited["layers.0.feed_forward"] == 0
    assert inherited["layers.1.attention"] > 0
    assert inherited["output"] > 0


def test_two_spoilt_layers_are_both_named(llama: Model, tmp_path: Path) -> None:
    found = attributed(tmp_path, llama, noisy("layers.0.mlp", "layers.1.mlp"))
    assert {one.layer for one in found.layers[:2]} == {"layers.0.feed_forward", "layers.1.feed_forward"}
    assert found.layers[0].kl_out_nats > 0


def coarse_cache(*layers: int) -> Callable[[Graphs], None]:
    def edit(graphs: Graphs) -> None:
        for layer in layers:
            for part in ("key", "value"):
                for graph, value in values(graphs, f"present.{layer}.{part}"):
                    insert_pair(graph, value, Affine(np.float32(0.7), 0))

    return edit


@pytest.mark.parametrize(("layers", "name"), [((1,), "layers.1.kv_cache"), ((0, 1), "kv_cache")])
def test_a_coarse_cache_is_named(layers: tuple[int, ...], name: str, llama: Model, tmp_path: Path) -> None:
    assert attributed(tmp_path, llama, coarse_cache(*layers)).culprit == name


def test_positions_that_decode_counts_wrong(llama: Model, tmp_path: Path) -> None:
    def shift(graphs: Graphs) -> None:
        graph = graphs["decode"].graph
        positions = next(value for value in graph.inputs if value.name == "positions")
        uses = list(positions.uses())
        moved = ir.node("Add", [positions, add_initializer(graph, "shift", np.array(4, np.int64))])
        moved.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        graph.insert_before(uses[0][0], moved)
        for node, index in uses:
            node.replace_input_with(index, moved.outputs[0])

    found = attributed(tmp_path, llama, shift)
    assert found.culprit == "positions"
    assert found.kl_read_nats == 0
    assert found.kl_step_nats is not None
    assert found.kl_step_nats > 0


def test_a_stream_that_is_clipped_is_named_and_counted(llama: Model, tmp_path: Path) -> None:
    def clip(graphs: Graphs) -> None:
        for graph, value in values(graphs, "layers.0.output"):
            insert_pair(graph, value, Affine(np.float32(0.002), 0))

    found = attributed(tmp_path, llama, clip)
    assert found.culprit == "layers.0.residual"
    tensors = {(one.graph, one.name): one for one in found.tensors}
    assert set(tensors) == {("prefill", "layers.0.output"), ("decode", "layers.0.output")}
    assert tensors["prefill", "layers.0.output"].saturated > 10
    assert tensors["prefill", "layers.0.output"].nonfinite == 0


def test_values_that_are_not_finite_make_the_layer_the_worst(llama: Model, tmp_path: Path) -> None:
    def overflow(graphs: Graphs) -> None:
        for graph in graphs.values():
            value = graph.graph.initializers["model.layers.1.mlp.down_proj.weight"]
            assert value.const_value is not None
            weight = value.const_value.numpy().copy()
            weight[0, 0] = np.inf
            value.const_value = ir.tensor(weight, name=str(value.name))

    found = attributed(tmp_path, llama, overflow)
    assert found.culprit == "layers.1.feed_forward"
    assert found.layers[0].kl_in_nats == found.kl_nats == float("inf")
    assert found.layers[0].kl_out_nats == 0
    assert found.tensors[0].nonfinite > 0


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_a_fused_reference_and_graphs_of_fixed_shapes(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model = request.getfixturevalue(kind)
    reference = fused(tmp_path, model)
    damaged = fixed_pair(tmp_path, model, "candidate", noisy("layers.1.self_attn.o_proj"))
    found = attribute(DecoderPair(reference, damaged, threads=1), [TEXT])
    assert [fault.name for fault in found.faults] == ["layers.1.attention"]
    assert found.kl_step_nats is None
    assert "positions" not in {layer.layer for layer in found.layers}
    # The two compute the rest in another order.
    sound = attribute(DecoderPair(reference, fixed_pair(tmp_path, model, "sound"), threads=1), [TEXT])
    assert sound.culprit == ""
    assert 0 < max(layer.own_error for layer in sound.layers) < 1e-4


def test_no_other_text_is_begun_when_the_budget_is_spent(llama: Model, tmp_path: Path) -> None:
    files = fused(tmp_path, llama)
    done = []
    found = attribute(DecoderPair(files, files), [TEXT, TEXT], budget_s=0, progress=lambda n, of: done.append((n, of)))
    assert found.texts == 1
    assert done == [(1, 2)]


def test_texts_that_are_too_long(llama: Model, tmp_path: Path) -> None:
    files = fixed_pair(tmp_path, llama)
    with pytest.raises(InputError, match="no text fits"):
        attribute(DecoderPair(files, files), [Text(tuple(range(3, 20)))])
