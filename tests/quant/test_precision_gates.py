from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.errors import RewriteError
from chipwise.quant.affine import affine
from chipwise.quant.calibration import Ranges, calibrate
from chipwise.quant.pairs import insert_pair
from chipwise.quant.precision_gates import GATES, add_precision_gates, gated_values
from chipwise.quant.product_groups import ProductGroup, product_groups
from chipwise.rewrite.runner import Runner
from tests.quant.changed_weights import dynamic_graph, feeds_of, read_case
from tests.quant.small_graphs import graph, run


@dataclass
class Case:
    """A decoder, and the same with gates."""

    model: ir.Model
    feeds: list[dict]
    groups: list[ProductGroup]
    ranges: Ranges
    gated: ir.Model
    runner: Runner

    def logits(self, feed: dict, *places: int) -> np.ndarray:
        """The logits with the gates of some groups open."""
        gates = np.zeros(len(self.groups), np.float32)
        gates[list(places)] = 1
        return self.runner.run({**feed, GATES: gates})["logits"]


@pytest.fixture(scope="module", params=["llama_mqa", "gemma3"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    config, weights = read_case(request.param, tmp_path_factory.mktemp("gates"))
    model = dynamic_graph(config, weights)
    feeds, groups = feeds_of(model, config), product_groups(model)
    ranges = calibrate(model, feeds, gated_values(groups), threads=1)
    gated = model.clone()
    add_precision_gates(gated, groups, ranges)
    return Case(model, feeds, groups, ranges, gated, Runner(gated, threads=1))


def _paired(case: Case, chosen: list[int]) -> ir.Model:
    """The graph with pairs at the inputs and outputs of some groups, as a chip would store them."""
    paired = case.model.clone()
    values = {value.name: value for node in paired.graph for value in node.outputs}
    for group in (case.groups[i] for i in chosen):
        products = {values[name].producer() for name in group.outputs}
        for name in (group.value, *group.outputs):
            users, found = products if name == group.value else None, case.ranges[name]
            insert_pair(paired.graph, values[name], affine(found.low, found.high), users=users)
    return paired


def test_all_gates_shut_compute_what_the_graph_does(case: Case) -> None:
    found = case.runner.run({**case.feeds[0], GATES: np.zeros(len(case.groups), np.float32)})
    for name, array in run(case.model, case.feeds[0]).items():
        assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("chosen", [slice(None), slice(0, 1), slice(2, 4), slice(-1, None)])
def test_open_gates_compute_what_pairs_do(case: Case, chosen: slice) -> None:
    feed, places = case.feeds[1], list(range(len(case.groups)))[chosen]
    plain, found = case.logits(feed), case.logits(feed, *places)
    wanted = run(_paired(case, places), feed)["logits"]
    moved = np.abs(wanted - plain).max()
    assert moved > 1e-3
    # x + (x in 8 bits - x) is x in 8 bits but for a last bit, which may fall over the edge of a later step.
    assert np.abs(found - wanted).max() < (1e-4 if len(places) == 1 else 0.2 * moved)


def test_a_gate_switches_its_own_group_alone(case: Case) -> None:
    found = [case.logits(case.feeds[0], place) for place in range(3)]
    assert not np.allclose(found[0], found[1], atol=1e-5)
    assert not np.allclose(found[1], found[2], atol=1e-5)


def test_inputs_and_outputs_keep_their_names(case: Case) -> None:
    plain, gated = case.model.graph, case.gated.graph
    assert [value.name for value in gated.outputs] == [value.name for value in plain.outputs]
    assert [value.name for value in gated.inputs] == [*(value.name for value in plain.inputs), GATES]
    assert gated.inputs[-1].shape == ir.Shape([len(case.groups)])
    # What the groups were measured for is found again by its weights.
    assert [group.weights for group in product_groups(case.gated)] == [group.weights for group in case.groups]


def test_a_value_that_was_not_calibrated(case: Case) -> None:
    gone = case.groups[1].outputs[0]
    with pytest.raises(RewriteError, match=rf"value {gone}: it was not calibrated"):
        add_precision_gates(case.model.clone(), case.groups, {k: v for k, v in case.ranges.items() if k != gone})


def _small() -> ir.Model:
    """A product that reads an input, and one that reads what the other computes."""
    nodes = [oh.make_node("MatMul", ["x", "w"], ["a"]), oh.make_node("MatMul", ["a", "v"], ["y"])]
    rng = np.random.default_rng(3)
    constants = {name: rng.standard_normal((4, 4)).astype(np.float32) for name in "wv"}
    return graph(nodes, {"x": [4, 4]}, {"a": [4, 4], "y": [4, 4]}, constants)


@pytest.mark.parametrize("gates", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_product_behind_a_product(gates: tuple[int, int]) -> None:
    model = _small()
    x = np.random.default_rng(5).standard_normal((4, 4)).astype(np.float32)
    groups = product_groups(model)
    ranges = calibrate(model, [{"x": x}], gated_values(groups), threads=1)
    w, v = (model.graph.initializers[name].const_value.numpy() for name in "wv")
    assert gated_values(groups) == ["x", "a", "y"]

    def stored(name: str, array: np.ndarray, *, gate: int) -> np.ndarray:
        return affine(ranges[name].low, ranges[name].high).round_trip(array) if gate else array

    a = stored("a", stored("x", x, gate=gates[0]) @ w, gate=gates[0])
    y = stored("y", stored("a", a, gate=gates[1]) @ v, gate=gates[1])
    add_precision_gates(model, groups, ranges)
    found = run(model, {"x": x, GATES: np.array(gates, np.float32)})
    assert np.allclose(found["a"], a, atol=1e-5)
    assert np.allclose(found["y"], y, atol=1e-5)
