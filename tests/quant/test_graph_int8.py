from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper as oh

from chipwise.errors import InputError, RewriteError
from chipwise.quant.graph_int8 import quantize_graph_int8, stored_schemes
from chipwise.quant.int_weights import IntGrid
from chipwise.quant.pairs import pair_ranges
from tests.quant.small_graphs import cosine, graph, linear, run, run_as_served

RNG = np.random.default_rng(7)


def _conv(weight: np.ndarray, bias: np.ndarray | None = None, *, group: int = 1) -> ir.Model:
    constants = {"w": weight.astype(np.float32)} | ({} if bias is None else {"b": bias.astype(np.float32)})
    channels = weight.shape[1] * group
    nodes = [
        oh.make_node("Conv", ["x", *constants], ["c"], pads=[1, 1, 1, 1], group=group),
        oh.make_node("Relu", ["c"], ["y"]),
    ]
    return graph(nodes, {"x": [1, channels, 8, 8]}, {"y": [1, len(weight), 8, 8]}, constants)


def _quantized(
    model: ir.Model, feeds: list[dict[str, np.ndarray]], tmp_path: Path, grid: IntGrid | None = None, **options: object
) -> ir.Model:
    source, out = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    ir.save(model, source)
    quantize_graph_int8(source, out, feeds, grid or IntGrid(), signed=False, **options)
    return ir.load(out)


def _images(n: int, channels: int = 3) -> list[dict[str, np.ndarray]]:
    return [{"x": RNG.normal(size=(1, channels, 8, 8)).astype(np.float32)} for _ in range(n)]


def test_a_convolution_runs_in_integers(tmp_path: Path) -> None:
    model, feeds = _conv(RNG.normal(size=(8, 3, 3, 3)), RNG.normal(size=8)), _images(4)
    wanted = run(model, feeds[0])["y"]
    quantized = _quantized(model, feeds, tmp_path)
    found, ran = run_as_served(quantized, feeds[0])
    assert "QLinearConv" in ran
    assert "Conv" not in ran
    assert cosine(found["y"], wanted) > 0.999
    assert stored_schemes(quantized)["w"].axis == 0
    assert pair_ranges(quantized)["x"].high == pytest.approx(max(f["x"].max() for f in feeds), abs=0.05)


def test_a_large_bias_on_tiny_weights_is_not_clipped(tmp_path: Path) -> None:
    """Weights of 1e-7 with a bias of [5, -4.5] came back as [1.45, -1.45] from an older quantizer."""
    model = _conv(np.full((2, 3, 1, 1), 1e-7), np.array([5.0, -4.5]))
    nodes = list(model.graph)
    nodes[0].attributes["pads"] = ir.AttrInt64s("pads", [0, 0, 0, 0])
    quantized = _quantized(model, _images(4), tmp_path)
    found = run_as_served(quantized, _images(1)[0])[0]["y"]
    assert found[0, 0] == pytest.approx(np.full((8, 8), 5.0), abs=0.05)


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_bias_of_rank_one_added_apart(per_channel: bool, tmp_path: Path) -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["product"]),
        oh.make_node("Add", ["product", "b"], ["y"]),
    ]
    constants = {"w": RNG.normal(size=(8, 4)).astype(np.float32), "b": RNG.normal(size=4).astype(np.float32)}
    model = graph(nodes, {"x": [2, 8]}, {"y": [2, 4]}, constants)
    feeds = [{"x": RNG.normal(size=(2, 8)).astype(np.float32)} for _ in range(4)]
    wanted = run(model, feeds[0])["y"]
    quantized = _quantized(model, feeds, tmp_path, IntGrid(8, per_channel))
    assert cosine(run(quantized, feeds[0])["y"], wanted) > 0.999


def test_a_depthwise_convolution_needs_a_scale_a_channel(tmp_path: Path) -> None:
    sizes = np.logspace(-2.5, 0, 16)
    weight = RNG.normal(size=(16, 1, 3, 3)) * sizes[:, None, None, None]
    feeds = [{"x": (f["x"] / sizes[None, :, None, None]).astype(np.float32)} for f in _images(4, 16)]
    model = _conv(weight, group=16)
    wanted = run(model, feeds[0])["y"]
    found = {}
    for per_channel in (True, False):
        quantized = _quantized(model.clone(), feeds, tmp_path, IntGrid(8, per_channel))
        # Float inputs: what is looked at is the weights.
        node = next(node for node in quantized.graph if node.op_type == "Conv")
        node.replace_input_with(0, quantized.graph.inputs[0])
        found[per_channel] = cosine(run(quantized, feeds[0])["y"], wanted)
    assert found[True] > 0.999
    assert found[False] < 0.95


def test_operators_that_take_one_scale_get_one(tmp_path: Path) -> None:
    feeds = [{"x": RNG.normal(size=(2, 8)).astype(np.float32)}]
    model = linear(RNG.normal(size=(8, 4)), rows=2)
    whole = _quantized(model.clone(), feeds, tmp_path, per_channel_ops=["Conv"])
    assert stored_schemes(whole)["w"].axis is None
    assert stored_schemes(_quantized(model, feeds, tmp_path, per_channel_ops=["MatMul"]))["w"].axis == 1


def test_a_spare_bit(tmp_path: Path) -> None:
    quantized = _quantized(_conv(RNG.normal(size=(4, 3, 3, 3))), _images(2), tmp_path, IntGrid(8, spare_bit=True))
    stored = quantized.graph.initializers["w_quantized"].const_value
    assert stored is not None
    assert np.abs(stored.numpy().astype(int)).max() <= 64


def test_no_samples(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no calibration samples"):
        _quantized(_conv(RNG.normal(size=(4, 3, 3, 3))), [], tmp_path)


def test_what_the_library_raises_is_one_line_of_ours(tmp_path: Path) -> None:
    with pytest.raises(RewriteError, match=r"onnxruntime\.quantization fails on the graph") as caught:
        _quantized(_conv(RNG.normal(size=(4, 3, 3, 3))), [{"z": np.ones(3, np.float32)}], tmp_path)
    assert "\n" not in str(caught.value)


def test_samples_are_read_one_at_a_time(tmp_path: Path) -> None:
    alive, most = 0, 0

    class Counted(dict[str, np.ndarray]):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    class Many:
        def __len__(self) -> int:
            return 20

        def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
            nonlocal alive, most
            for feed in _images(20):
                alive += 1
                most = max(most, alive)
                yield Counted(feed)

    source = tmp_path / "float.onnx"
    ir.save(_conv(RNG.normal(size=(4, 3, 3, 3))), source)
    quantize_graph_int8(source, tmp_path / "int8.onnx", Many(), IntGrid(), signed=True)
    assert most <= 2


def test_nothing_is_said_on_the_way(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    level = logging.getLogger().level
    _quantized(_conv(RNG.normal(size=(4, 3, 3, 3))), _images(2), tmp_path)
    assert not caplog.records
    assert logging.getLogger().level == level
