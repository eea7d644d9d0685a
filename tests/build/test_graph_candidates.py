from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper as oh

from chipwise.build.graph_candidates import GraphCandidates
from chipwise.build.graph_file import GraphFile
from chipwise.quant.recipe import parse_recipe
from chipwise.target import load_target
from tests.quant.small_graphs import graph

RNG = np.random.default_rng(2)


@pytest.mark.parametrize(("target", "recipe"), [("rk3588", "w8a8"), ("rk3562", "w8a16_channel")])
def test_a_graph_older_than_scales_a_channel_is_raised(target: str, recipe: str, tmp_path: Path) -> None:
    """DequantizeLinear has an axis from opset 13 on; exporters of image models write 11 to this day."""
    weight = (
        RNG.normal(size=(32, 32, 1, 1)).astype(np.float32)
        * np.logspace(-2, 1, 32, dtype=np.float32)[:, None, None, None]
    )
    model = graph(
        [oh.make_node("Conv", ["x", "w"], ["y"])], {"x": [1, 32, 4, 4]}, {"y": [1, 32, 4, 4]}, {"w": weight}, opset=11
    )
    reference = GraphFile.save(model, tmp_path, "reference", {})
    feed = {"x": RNG.normal(size=(1, 32, 4, 4)).astype(np.float32)}
    made = GraphCandidates(reference, load_target(target), tmp_path, 1).make(
        parse_recipe(recipe), [feed], lambda *_: None
    )
    found, wanted = (session.open(1).run(feed)["y"] for session in (made, reference))
    assert not np.array_equal(found, wanted)
    assert np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()
