from __future__ import annotations

from chipwise.check.rules.masks import mask_range
from tests.check.graphs import SELECTED, added, attention, given_graph, graph, target


def test_a_low_mask_matters_on_an_accelerator_and_in_eight_bits() -> None:
    model = graph(attention(added("-1e9")))
    (one,) = mask_range(given_graph(model, target()))
    assert (one.severity, one.where, one.measured) == ("warning", "Softmax p", "-1e+09")
    host = target(kind="cpu", engine="onnxruntime")
    assert [f.severity for f in mask_range(given_graph(model, host))] == ["info"]
    assert [f.severity for f in mask_range(given_graph(model, host, "w8a8"))] == ["warning"]


def test_a_selecting_mask_too() -> None:
    (one,) = mask_range(given_graph(graph(attention(SELECTED)), target()))
    assert one.measured == "-10000"


def test_a_mask_of_minus_thirty_is_fine() -> None:
    assert list(mask_range(given_graph(graph(attention(added("-30.0"))), target()))) == []
