from __future__ import annotations

from chipwise.rewrite.passes.explicit_epsilon import ExplicitEpsilon
from tests.rewrite.helpers import rewritten, unchanged

NORM = "g (float[2,4] x, float[4] s) => (float[2,4] y) {{ y = LayerNormalization{}(x, s) }}"


def test_the_default_is_written() -> None:
    result = rewritten(NORM.format(""), ExplicitEpsilon())
    assert result.model.graph[0].attributes["epsilon"].as_float() == 1e-5
    assert result.model.graph[0].attributes["axis"].as_int() == -1
    assert result.steps[0].max_abs_diff == 0.0


def test_other_normalizations_too() -> None:
    body = (
        "g (float[1,4,3] x, float[4] a, float[4] b, float[4] c, float[4] d) => (float[1,4,3] y)"
        " { i = InstanceNormalization(x, a, b) y = BatchNormalization(i, a, b, c, d) }"
    )
    feed_free = rewritten(body, ExplicitEpsilon())
    assert feed_free.steps[0].notes[0] == "wrote epsilon 1e-05 into 2 nodes"


def test_one_that_is_there_stays() -> None:
    unchanged(NORM.format("<epsilon=0.001, axis=1>"), ExplicitEpsilon())
