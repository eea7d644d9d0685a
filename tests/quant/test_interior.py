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


TAILS = ("Add", "Gelu", "HardSigmoid", "Mul", "Swish")


def _behind(*nodes: onnx.NodeProto, **constants: np.ndarray) -> tuple[set[str], set[str]]:
    """Interior values without and with what a chip's compiler fuses."""
    model = graph(list(nodes), {"x": [2, 8], "z": [2, 8]}, {"y": [2, 8]}, {**W, **constants})
    values = (interior_values(model.graph), interior_values(model.graph, TAILS))
    without, fused = ({str(value.name) for value in found} for found in values)
    return without, fused


def test_a_product_and_the_activation_its_compiler_fuses() -> None:
    product, sigmoid = oh.make_node("MatMul", ["x", "w"], ["p"]), oh.make_node("Sigmoid", ["p"], ["s"])
    assert _behind(product, sigmoid, oh.make_node("Mul", ["p", "s"], ["y"])) == ({"s"}, {"s", "p"})
    assert _behind(product, oh.make_node("HardSigmoid", ["p"], ["y"])) == (set(), {"p"})
    assert _behind(product, oh.make_node("Tanh", ["p"], ["y"])) == (set(), set())


def test_a_product_whose_activation_is_not_all_that_reads_it() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["p"]),
        oh.make_node("Sigmoid", ["p"], ["s"]),
        oh.make_node("Mul", ["p", "s"], ["a"]),
        oh.make_node("Sub", ["a", "p"], ["y"]),
    ]
    assert _behind(*nodes) == ({"s"}, {"s"})


def test_a_residual_is_added_before_a_product_is_stored() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["p"]),
        oh.make_node("Add", ["p", "b"], ["biased"]),
        oh.make_node("Add", ["z", "biased"], ["sum"]),
        oh.make_node("Relu", ["sum"], ["y"]),
    ]
    assert _behind(*nodes) == ({"p"}, {"p", "biased", "sum"})


def test_of_two_products_the_later_one_is_fused() -> None:
    nodes = [
        oh.make_node("MatMul", ["x", "w"], ["first"]),
        oh.make_node("MatMul", ["z", "w"], ["second"]),
        oh.make_node("Mul", ["second", "first"], ["y"]),
    ]
    assert _behind(*nodes) == (set(), {"second"})


def test_a_product_of_two_activations_is_stored() -> None:
    nodes = [
        oh.make_node("Transpose", ["z"], ["t"], perm=[1, 0]),
        oh.make_node("MatMul", ["x", "t"], ["p"]),
        oh.make_node("MatMul", ["p", "z"], ["q"]),
        oh.make_node("Add", ["q", "z"], ["y"]),
    ]
    assert _behind(*nodes) == (set(), set())


def test_a_bias_of_a_convolution_has_the_sizes_of_its_channels() -> None:
    def found(bias: np.ndarray) -> set[str]:
        nodes = [oh.make_node("Conv", ["x", "k"], ["p"]), oh.make_node("Add", ["p", "c"], ["y"])]
        constants = {"k": np.ones((3, 2, 1, 1), np.float32), "c": bias.astype(np.float32)}
        return _names(graph(nodes, {"x": [1, 2, 4, 4]}, {"y": [1, 3, 4, 4]}, constants))

    assert found(np.ones((1, 3, 1, 1))) == {"p"}
    assert found(np.ones((3, 1, 1))) == {"p"}
    assert found(np.ones((4,))) == set()
    assert found(np.ones((1, 3, 4, 4))) == set()
