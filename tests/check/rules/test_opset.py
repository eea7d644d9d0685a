from __future__ import annotations

from chipwise.check.rules.opset import opset
from tests.check.graphs import given_decoder, given_graph, graph, q, target

RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def test_newer_but_lowerable_is_a_warning() -> None:
    (one,) = opset(given_graph(graph("g (float[2] x) => (float[2] y) { y = Gelu(x) }", 20), target(opset_max=q(19))))
    assert (one.severity, one.measured, one.limit) == ("warning", "opset 20", "opset 19")


def test_an_operator_without_a_definition_blocks_and_is_named() -> None:
    body = "g (float[1,1,4,4] x, float[1,2,2,2] at) => (float[1,1,2,2] y) { y = GridSample(x, at) }"
    (one,) = opset(given_graph(graph(body, 16), target(opset_max=q(11))))
    assert (one.severity, one.where) == ("error", "GridSample")


def test_older_than_the_toolchain_reads() -> None:
    (one,) = opset(given_graph(graph(RELU, 9), target(opset_min=q(10))))
    assert (one.severity, one.limit) == ("warning", "opset 10 or newer")


def test_within_the_range_or_without_one_or_without_a_graph() -> None:
    assert list(opset(given_graph(graph(RELU), target(opset_min=q(10), opset_max=q(19))))) == []
    assert list(opset(given_graph(graph(RELU, 21), target()))) == []
    assert list(opset(given_decoder(target(opset_max=q(11))))) == []
