from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.errors import InputError
from chipwise.quant.equalize import Channels, equalize, expected_error
from chipwise.rewrite.pass_ import RewriteContext
from chipwise.rewrite.passes.equalized_channels import EqualizedChannels
from chipwise.rewrite.pipeline import run_passes
from chipwise.rewrite.runner import Runner
from tests.quant.small_graphs import graph

RNG = np.random.default_rng(5)
FEEDS = [{"x": RNG.standard_normal((1, 24, 16)).astype(np.float32)} for _ in range(4)]


def weights(outlier: float) -> tuple[np.ndarray, np.ndarray]:
    """Two weights; a few channels between them are larger, and what reads them as much smaller."""
    sizes = np.ones(32, np.float32)
    sizes[[3, 17]] = outlier
    first = RNG.standard_normal((16, 32)).astype(np.float32) * sizes
    return first, RNG.standard_normal((32, 8)).astype(np.float32) / sizes[:, None]


def model(first: np.ndarray, second: np.ndarray, opset: int = 17) -> ir.Model:
    nodes = [oh.make_node("MatMul", ["x", "a"], ["m"]), oh.make_node("MatMul", ["m", "b"], ["y"])]
    return graph(nodes, {"x": [1, 24, 16]}, {"y": [1, 24, 8]}, {"a": first, "b": second}, opset=opset)


def int8(array: np.ndarray, axis: int | None = None) -> np.ndarray:
    low, high = array.min(axis=axis, keepdims=True), array.max(axis=axis, keepdims=True)
    step = (high - low) / 255
    return np.round(array / step) * step


def loss(made: ir.Model) -> float:
    """Relative error of the second product, its input in one 8-bit scale and its weight in one a column."""
    known = {value.name: value.const_value.numpy() for value in made.graph.initializers.values()}
    first, second = (known[node.inputs[1].name] for node in made.graph)
    runner = Runner(made)
    error = power = 0.0
    for feed in FEEDS:
        y = runner.run(feed)["y"][0]
        error += float(((int8(feed["x"][0] @ first) @ int8(second, axis=0) - y) ** 2).sum())
        power += float((y**2).sum())
    return error / power


@pytest.mark.parametrize("opset", [17, 18])
def test_outlier_channels_stop_costing_what_they_cost(opset: int) -> None:
    plain = model(*weights(30.0), opset)
    factors = equalize(plain, FEEDS)
    assert list(factors) == ["m"]
    assert factors["m"][[3, 17]].min() > 10 * factors["m"][[0, 1, 2, 4]].max()
    made = run_passes(plain, [EqualizedChannels(factors)], RewriteContext(samples=tuple(FEEDS)))
    assert made.steps[0].modified
    assert loss(made.model) < loss(plain) / 20


def test_even_channels_stay_as_they_are() -> None:
    feeds = [{"x": np.sign(feed["x"])} for feed in FEEDS]
    assert equalize(model(*(np.sign(weight) for weight in weights(1.0))), feeds) == {}


def test_dead_channels_and_weights_get_no_factor_of_their_own() -> None:
    first, second = weights(30.0)
    first[:, 5] = 0
    second[6] = 0
    factors = equalize(model(first, second), FEEDS)["m"]
    assert np.isfinite(factors).all()
    assert (factors[[5, 6]] == 1).all()


def test_expected_error_weighs_both_sides() -> None:
    ones = np.ones(4)
    value = Channels(-np.array([1, 1, 1, 10.0]), np.array([1, 1, 1, 10.0]), np.array([1, 1, 1, 100.0]) / 3)
    weight = np.diag([1, 1, 1, 0.1])
    even = np.array([1, 1, 1, 10.0])
    assert expected_error(value, [weight], even) < expected_error(value, [weight], ones) / 10
    other = Channels(-1 / even, 1 / even, 1 / even**2 / 3)
    assert expected_error(value, other, even) < expected_error(value, other, ones) / 10


def test_no_samples_is_said() -> None:
    with pytest.raises(InputError, match="no calibration samples"):
        equalize(model(*weights(1.0)), [])
