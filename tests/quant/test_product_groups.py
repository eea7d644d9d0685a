from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper as oh

from chipwise.quant.product_groups import product_groups
from tests.quant.changed_weights import dynamic_graph, read_case
from tests.quant.small_graphs import graph


@pytest.mark.parametrize("case", ["llama", "llama_mqa", "qwen2"])
def test_the_groups_of_a_decoder(case: str, tmp_path: Path) -> None:
    config, weights = read_case(case, tmp_path)
    groups = product_groups(dynamic_graph(config, weights))
    layer = [
        ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",),
        ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",),
    ]  # fmt: skip
    wanted = [tuple(f"model.layers.{i}.{name}.weight" for name in group) for i in range(2) for group in layer]
    assert [group.weights for group in groups[:-1]] == wanted
    # The names are those that the weights are loaded by, tied or not.
    assert all(name in weights for group in groups for name in group.weights)
    for group in groups:
        shapes = [weights.info(name).shape for name in group.weights]
        assert group.weight_count == sum(int(np.prod(shape)) for shape in shapes)
        assert len({shape[-1] for shape in shapes}) == 1
    assert groups[-1].outputs == ("logits",)


def test_products_of_two_activations_and_other_operators_are_none() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["a"]),
        oh.make_node("MatMul", ["a", "x"], ["b"]),
        oh.make_node("Mul", ["b", "w"], ["c"]),
        oh.make_node("Gemm", ["x", "w"], ["d"]),
        oh.make_node("Gemm", ["c", "v"], ["e"]),
    ]
    constants = {name: np.ones((4, 4), np.float32) for name in "wv"}
    model = graph(nodes, {"x": [4, 4]}, {"d": [4, 4], "e": [4, 4]}, constants)
    first, second = product_groups(model)
    # One matrix read twice counts once.
    assert (first.value, first.weights, first.outputs, first.weight_count) == ("x", ("w",), ("a", "d"), 16)
    assert (second.value, second.weights, second.outputs, second.weight_count) == ("c", ("v",), ("e",), 16)
