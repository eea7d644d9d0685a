from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from chipwise.errors import EngineError, GraphError, InputError
from chipwise.verify.layers import Feed, layer_cosines, layer_values, tap

LAYERS, WIDTH = 2, 64


def write_chain(path: Path, *, damaged: dict[int, int] | None = None, names: bool = True, width: int = WIDTH) -> Path:
    """Linear layers on a residual stream, weights in a file of their own.

    Args:
        path: Where to write it.
        damaged: By layer, the output channel whose weights are noise.
        names: Whether inner values bear their layer's name.
        width: Channels.
    """
    rng = np.random.default_rng(0)
    nodes, weights, stream = [], [], "x"
    for layer in range(LAYERS):
        weight = rng.normal(0, width**-0.5, (width, width)).astype(np.float32)
        if damaged and layer in damaged:
            weight[:, damaged[layer]] = np.random.default_rng(1).normal(0, width**-0.5, width)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        out, result = (f"layers.{layer}.mlp_out", f"layers.{layer}.output") if names else (f"a{layer}", f"b{layer}")
        nodes += [
            helper.make_node("MatMul", [stream, f"w{layer}"], [out]),
            helper.make_node("Add", [stream, out], [result]),
        ]
        stream = result
    nodes.append(helper.make_node("Relu", [stream], ["y"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    return path


def feeds(count: int = 3) -> list[Feed]:
    rng = np.random.default_rng(2)
    return [{"x": rng.normal(0, 1, (5, WIDTH)).astype(np.float32)} for _ in range(count)]


def test_values_come_layer_by_layer(tmp_path: Path) -> None:
    names = layer_values(ir.load(write_chain(tmp_path / "a.onnx")))
    assert names == ["layers.0.mlp_out", "layers.0.output", "layers.1.mlp_out", "layers.1.output"]
    assert layer_values(ir.load(write_chain(tmp_path / "b.onnx", names=False))) == []


def test_equal_graphs_read_one(tmp_path: Path) -> None:
    a, b = write_chain(tmp_path / "a.onnx"), write_chain(tmp_path / "b.onnx")
    lines = layer_cosines(a, b, feeds())
    assert [line.name for line in lines] == layer_values(ir.load(a))
    assert all(line.mean == pytest.approx(1) and line.min == pytest.approx(1) for line in lines)


def test_the_damaged_layer_and_channel_are_named(tmp_path: Path) -> None:
    a, b = write_chain(tmp_path / "a.onnx"), write_chain(tmp_path / "b.onnx", damaged={1: 9})
    lines = {line.name: line for line in layer_cosines(a, b, feeds(20))}
    assert lines["layers.0.output"].min == pytest.approx(1)
    broken = lines["layers.1.mlp_out"]
    assert broken.worst_channel == 9
    assert broken.min < 0.6
    assert broken.whole > 0.97  # and the whole tensor looks well
    assert broken.mean > 0.97


def test_what_an_early_layer_lost_shows_in_those_that_follow(tmp_path: Path) -> None:
    a, b = write_chain(tmp_path / "a.onnx"), write_chain(tmp_path / "b.onnx", damaged={0: 9})
    lines = {line.name: line for line in layer_cosines(a, b, feeds(20))}
    assert lines["layers.0.mlp_out"].worst_channel == 9
    assert lines["layers.1.mlp_out"].mean < 0.9999


def test_the_sum_over_feeds_is_that_of_one_feed(tmp_path: Path) -> None:
    a, b = write_chain(tmp_path / "a.onnx"), write_chain(tmp_path / "b.onnx", damaged={0: 9})
    parts = feeds()
    joined = [{"x": np.concatenate([feed["x"] for feed in parts])}]
    one, other = layer_cosines(a, b, parts), layer_cosines(a, b, joined)
    assert [line.min for line in one] == pytest.approx([line.min for line in other])


def test_only_values_both_have_are_compared(tmp_path: Path) -> None:
    a, b = write_chain(tmp_path / "a.onnx"), write_chain(tmp_path / "b.onnx", names=False)
    assert layer_cosines(a, b, feeds()) == []
    assert layer_cosines(a, a, []) == []


def test_named_values_and_one_that_is_an_output_already(tmp_path: Path) -> None:
    a = write_chain(tmp_path / "a.onnx")
    assert [line.name for line in layer_cosines(a, a, feeds(), names=["y", "layers.0.output"])] == [
        "y",
        "layers.0.output",
    ]
    model = ir.load(a)
    tap(model, ["y"])
    assert len(model.graph.outputs) == 1


def test_wrong_inputs_are_named(tmp_path: Path) -> None:
    a = write_chain(tmp_path / "a.onnx")
    with pytest.raises(GraphError, match="no value named 'z'"):
        layer_cosines(a, a, feeds(), names=["z"])
    with pytest.raises(InputError, match="lacks x"):
        layer_cosines(a, a, [{}])
    with pytest.raises(GraphError, match="cannot read"):
        layer_cosines(a, tmp_path / "none.onnx", feeds())
    (tmp_path / "junk.onnx").write_bytes(b"\xffno graph")
    with pytest.raises(GraphError, match="not an ONNX file"):
        layer_cosines(a, tmp_path / "junk.onnx", feeds())


def test_a_feed_may_hold_what_one_graph_does_not_take(tmp_path: Path) -> None:
    a = write_chain(tmp_path / "a.onnx")
    assert len(layer_cosines(a, a, [{**feeds()[0], "other": np.zeros(1)}])) == 4


def test_other_shapes_are_named(tmp_path: Path) -> None:
    a, b = write_chain(tmp_path / "a.onnx"), write_chain(tmp_path / "b.onnx")
    model = onnx.load(b)
    model.graph.node[0].output[0] = "inner"
    axes = numpy_helper.from_array(np.array([0]), "axes")
    model.graph.initializer.append(axes)
    model.graph.node.insert(1, helper.make_node("Unsqueeze", ["inner", "axes"], ["layers.0.mlp_out"]))
    onnx.save(model, b)
    with pytest.raises(EngineError, match=r"layers.0.mlp_out is \(5, 64\) in the reference, \(1, 5, 64\)"):
        layer_cosines(a, b, feeds())
