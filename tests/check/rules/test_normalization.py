from __future__ import annotations

from chipwise.check.rules.normalization import epsilon
from tests.check.graphs import fact, given_graph, graph, target

NORM = "g (float[2,4] x, float[4] s) => (float[2,4] y) {{ y = LayerNormalization{}(x, s) }}"


def test_a_silent_epsilon() -> None:
    on = target(explicit_epsilon=fact(True))
    (one,) = epsilon(given_graph(graph(NORM.format("")), on))
    assert (one.severity, one.measured) == ("warning", "1 LayerNormalization without epsilon")
    assert list(epsilon(given_graph(graph(NORM.format("<epsilon=1e-6>")), on))) == []
    assert list(epsilon(given_graph(graph(NORM.format("")), target()))) == []
