from __future__ import annotations

import pytest

from chipwise.build.compared_outputs import ComparedOutputs
from chipwise.build.graph_gate import GraphThresholds, judge_graph
from chipwise.errors import InputError
from chipwise.report import Verdict
from chipwise.report.report import LayerCosine

GOOD, NAN = LayerCosine("good", 0.999, 0.99, 0.9999, 0), LayerCosine("nan", float("nan"), 0.0, float("nan"), 0)
# A whole cosine of 0.9997 that hides a mean of 0.51 a channel.
HIDDEN = LayerCosine("hidden", 0.51, 0.1, 0.9997, 3)


def _judged(
    outputs: list[LayerCosine], nonfinite: int = 0, equal: dict[str, float] | None = None, gain: float = 1.0
) -> tuple[Verdict, ...]:
    gains = {one.name: gain for one in outputs}
    return judge_graph(ComparedOutputs(tuple(outputs), equal or {}, nonfinite, gains), GraphThresholds())


def _failed(outputs: list[LayerCosine], nonfinite: int = 0, gain: float = 1.0) -> set[str]:
    return {one.metric for one in _judged(outputs, nonfinite, gain=gain) if not one.passed}


def test_the_worst_output_counts() -> None:
    assert _failed([GOOD]) == set()
    assert _failed([GOOD, HIDDEN]) == {"channel_cosine"}
    assert _failed([GOOD, LayerCosine("low", 0.99, 0.9, 0.98, 0)]) == {"output_cosine"}


def test_a_nan_never_passes() -> None:
    for outputs in ([NAN], [GOOD, NAN], [NAN, GOOD]):
        assert _failed(outputs) == {"output_cosine", "channel_cosine"}
    assert _failed([GOOD], nonfinite=1) == {"samples_nonfinite"}


def test_nothing_that_ran_is_nothing_that_passed() -> None:
    assert _failed([]) == {"output_cosine", "channel_cosine"}


def test_a_gain_that_no_cosine_sees_fails() -> None:
    assert _failed([GOOD], gain=1.04) == set()
    for gain in (0.5, 2.0, float("nan"), float("inf")):
        assert _failed([GOOD], gain=gain) == {"gain_error"}


def test_integers_are_judged_by_their_values() -> None:
    wrong = _judged([GOOD], equal={"index": 0.5, "flag": 1.0})
    assert [(one.metric, one.value) for one in wrong if not one.passed] == [("values_equal", 0.5)]
    alone = _judged([], equal={"index": 0.96})
    assert [one.metric for one in alone] == ["samples_nonfinite", "values_equal"]
    assert all(one.passed for one in alone)


def test_fewer_bits_may_cost_more() -> None:
    wide, eight, four = (GraphThresholds.for_weight_bits(bits) for bits in (16, 8, 4))
    assert wide.output_cosine > eight.output_cosine > four.output_cosine


def test_thresholds_of_the_users() -> None:
    assert GraphThresholds().with_overrides({"output_cosine": 0.5}).output_cosine == 0.5
    with pytest.raises(InputError, match="no threshold named 'kl_mean_nats'; there are output_cosine"):
        GraphThresholds().with_overrides({"kl_mean_nats": 1})
    with pytest.raises(InputError, match="not a number"):
        GraphThresholds().with_overrides({"output_cosine": float("nan")})
