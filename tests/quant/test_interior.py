from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper as oh

from chipwise.quant.interior import interior_values, norm_weights
from tests.quant.small_graphs import graph

W = {"w": np.ones((8, 8), np.float32), "b": np.ones(8, np.float32)}


def _names(model: ir.Model) -> set[str]:
    return {str(value.name) for value in interior_values(model.graph)}


def _made(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray]) -> ir.Model:
    return graph(nodes, {"x": [2, 8]}, {"y": [2, 8]}, constants)


def _norm(*, centred: bool, weight: bool, bias: bool) -> ir.Model:
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "g": np.ones(8, np.float32), **W}
    nodes = []
    source = "x"
    if centred:
        nodes.append(oh.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]))
        nodes.append(oh.make_node("Sub", ["x", "mean"], ["centred"]))
        source = "centred"
    nodes += [
        oh.make_node("Pow", [source, "two"], ["square"]),
        oh.make_node("ReduceMean", ["square"], ["variance"], axes=[-1]),
        oh.make_node("Add", ["variance", "eps"], ["sum"]),
        oh.make_node("Sqrt", ["sum"], ["root"]),
        oh.make_node("Div", [source, "root"], ["quotient"]),
    ]
    last = "quotient"
    if weight:
        nodes.append(oh.make_node("Mul", [last, "g"], ["weighted"]))
        last = "weighted"
    if bias:
        nodes.append(oh.make_node("Add", [last, "b"], ["shifted"]))
        last = "shifted"
    nodes.append(oh.make_node("MatMul", [last, "w"], ["y"]))
    return _made(nodes, constants)


def test_a_norm_of_the_root_mean_square() -> None:
    model = _norm(centred=False, weight=True, bias=False)
    assert _names(model) == {"square", "variance", "sum", "root", "quotient"}
    left = norm_weights(model.graph, interior_values(model.graph))
    assert "g" in {value.name for value in left}
    assert "w" not in {value.name for value in left}


def test_a_layer_norm_written_out() -> None:
    inside = {"mean", "centred", "square", "variance", "sum", "root", "quotient"}
    assert _names(_norm(centred=True, weight=True, bias=True)) == {*inside, "weighted"}
    assert _names(_norm(centred=True, weight=False, bias=False)) == inside - {"quotient"}


def test_a_silu() -> None:
    nodes = [oh.make_node("Sigmoid", ["x"], ["s"]), oh.make_node("Mul", ["x", "s"], ["y"])]
    assert _names(_made(nodes, {})) == {"s"}


def test_a_gate_is_no_activation() -> None:
    nodes = [
        oh.make_node("Sigmoid", ["x"], ["s"]),
        oh.make_node("Neg", ["x"], ["other"]),
        oh.make_node("Mul", ["other", "s"], ["y"]),
    ]
    assert _names(_made(nodes, {})) == set()


def test_a_product_and_its_bias_and_relu() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["product"]),
        oh.make_node("Add", ["b", "product"], ["biased"]),
        oh.make_node("Relu", ["biased"], ["y"]),
    ]
    assert _names(_made(nodes, W)) == {"product", "biased"}


def test_a_product_that_others_read_too_is_stored() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["product"]),
        oh.make_node("Add", ["product", "b"], ["biased"]),
        oh.make_node("Mul", ["biased", "product"], ["y"]),
    ]
    assert _names(_made(nodes, W)) == set()


def test_a_residual_is_no_bias() -> None:
    nodes = [oh.make_node("MatMul", ["x", "w"], ["product"]), oh.make_node("Add", ["product", "x"], ["y"])]
    assert _names(_made(nodes, W)) == set()


def test_an_output_of_the_graph_is_never_inside() -> None:
    nodes = [oh.make_node("MatMul", ["x", "w"], ["product"]), oh.make_node("Add", ["product", "b"], ["y"])]
    model = graph(nodes, {"x": [2, 8]}, {"y": [2, 8], "product": [2, 8]}, W)
    assert _names(model) == set()
