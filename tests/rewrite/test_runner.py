from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from chipwise.errors import InputError, RewriteError
from chipwise.rewrite.runner import Runner, brief
from tests.check.graphs import graph, with_initializers

PRODUCT = "g (float[2,64] x, float[64,64] w) => (float[2,64] y) { y = MatMul(x, w) }"
WEIGHT = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
X = np.ones((2, 64), np.float32)


def test_weights_in_memory() -> None:
    runner = Runner(with_initializers(graph(PRODUCT), w=WEIGHT))
    assert (runner.input_names, runner.output_names) == (["x"], ["y"])
    np.testing.assert_allclose(runner.run({"x": X})["y"], X @ WEIGHT, rtol=1e-5, atol=1e-5)


def test_weights_in_a_file(tmp_path: Path) -> None:
    ir.save(with_initializers(graph(PRODUCT), w=WEIGHT), tmp_path / "m.onnx", external_data="m.data")
    runner = Runner(ir.load(tmp_path / "m.onnx"))
    np.testing.assert_allclose(runner.run({"x": X})["y"], X @ WEIGHT, rtol=1e-5, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.data", "m.onnx"]


def test_weights_in_a_file_beside_weights_in_memory(tmp_path: Path) -> None:
    body = "g (float[2,64] x, float[64,64] w, float[64,64] z) => (float[2,64] y) { a = MatMul(x, w) y = MatMul(a, z) }"
    ir.save(with_initializers(graph(body), w=WEIGHT, z=WEIGHT), tmp_path / "m.onnx", external_data="m.data")
    model = ir.load(tmp_path / "m.onnx")
    model.graph.initializers["z"].const_value = ir.tensor(2 * WEIGHT, name="z")
    np.testing.assert_allclose(Runner(model).run({"x": X})["y"], X @ WEIGHT @ (2 * WEIGHT), rtol=1e-4, atol=1e-3)


def test_a_feed_of_another_type_is_converted() -> None:
    runner = Runner(graph("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    assert runner.run({"x": np.array([1, 200], np.uint8)})["y"].tolist() == [1.0, 200.0]


@pytest.mark.parametrize(("feed", "said"), [({}, "lacks x"), ({"x": X, "z": X}, "unknown z")])
def test_a_feed_that_does_not_fit(feed: dict[str, np.ndarray], said: str) -> None:  # type: ignore[type-arg]
    runner = Runner(graph("g (float[2,64] x) => (float[2,64] y) { y = Relu(x) }"), label="the model after fix")
    with pytest.raises(InputError, match=said) as caught:
        runner.run(feed)
    assert "the model after fix" in str(caught.value)


def test_a_model_that_does_not_load() -> None:
    with pytest.raises(RewriteError, match="the model does not load") as caught:
        Runner(graph("g (float[2] x) => (float[2] y) { y = foo.Bar(x) }", imports=', "foo": 1'))
    assert "\n" not in str(caught.value)


def test_a_run_that_fails_tells_the_shapes() -> None:
    runner = Runner(graph("g (float[2,64] x) => (float[2,64] y) { y = Relu(x) }"))
    with pytest.raises(RewriteError, match=r"fails on inputs x \[3, 64\]"):
        runner.run({"x": np.ones((3, 64), np.float32)})


def test_brief_keeps_the_end() -> None:
    assert brief(ValueError("a\n b")) == "a b"
    assert brief(ValueError("x" * 500 + "the reason")).endswith("the reason")
    assert len(brief(ValueError("x" * 500))) < 300
    assert brief(ValueError()) == "ValueError"
