from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from chipwise.report import html_charts
from chipwise.report.quality import AnswerPosition, KlHistogram
from chipwise.report.report import LayerCosine, SchemeSize

EDGES = (1e-6, 1e-3, 1.0, 10.0)


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter()]


def heights(svg: str) -> list[float]:
    bars = [node for node in ElementTree.fromstring(svg).iter("rect") if "bar" in (node.get("class") or "")]
    return [float(bar.get("height") or 0) for bar in bars]


def test_histogram_bars_are_shares() -> None:
    svg = html_charts.kl_histogram(KlHistogram(EDGES, (5, 5, 0), (30, 60, 10)), 0.03)
    low, high, rare = heights(svg)
    assert high == pytest.approx(2 * low, rel=0.01)
    assert high == pytest.approx(6 * rare, rel=0.03)
    assert "answer mean 0.0300" in texts(svg)
    assert "prompt tokens" in texts(svg)


@pytest.mark.parametrize("mean", [math.nan, math.inf, 0.0])
def test_histogram_of_nothing(mean: float) -> None:
    svg = html_charts.kl_histogram(KlHistogram(EDGES, (0, 0, 0), (0, 0, 0)), mean)
    assert heights(svg) == [0, 0, 0]
    assert "mean" not in svg
    assert "nan" not in svg


def test_places_few_answers_reach_are_left_out() -> None:
    positions = [AnswerPosition(i, 10 - i, 0.01 * i, 1 - 0.05 * i) for i in range(10)]
    for plot in (html_charts.kl_along_answer, html_charts.agreement_along_answer):
        hints = [text for text in texts(plot(positions)) if "cases)" in text]
        assert len(hints) == 8
        assert hints[0].startswith("token 1:")
    one = [AnswerPosition(0, 1, 0.5, 1.0)]
    assert "token 1: 0.500 nats (1 cases)" in texts(html_charts.kl_along_answer(one))


@pytest.mark.parametrize("kl", [0.0, math.nan, math.inf, 1e-300])
def test_flat_and_broken_curves_are_drawn(kl: float) -> None:
    svg = html_charts.kl_along_answer([AnswerPosition(i, 5, kl, 0.0) for i in range(3)])
    assert "<svg" in svg
    assert 'cy="nan"' not in svg
    assert "<svg" in html_charts.agreement_along_answer([AnswerPosition(0, 5, kl, 0.0)])


def test_cosines_lie_on_a_scale_of_nines() -> None:
    layers = [LayerCosine(f"layers.{i}.output", 1 - 10.0**-i, 0.0, 1.0, 3) for i in range(1, 5)]
    svg = html_charts.layer_cosines(layers)
    dots = [node for node in ElementTree.fromstring(svg).iter("circle") if "s1" in (node.get("class") or "")]
    places = [float(dot.get("cy") or 0) for dot in dots]
    steps = [one - other for one, other in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert {"whole", "mean channel", "worst channel", "1", "4"} <= set(texts(svg))


@pytest.mark.parametrize("cosine", [math.nan, -1.0, 1.0])
def test_extreme_cosines_stay_inside(cosine: float) -> None:
    svg = html_charts.layer_cosines([LayerCosine("odd name", cosine, cosine, cosine, 0)])
    heights = [float(found) for found in re.findall(r'cy="([^"]+)"', svg)]
    assert len(heights) == (0 if math.isnan(cosine) else 3)
    assert all(0 <= height <= 250 for height in heights)


def test_sizes_are_to_scale() -> None:
    svg = html_charts.sizes([SchemeSize("<int4>", 3, 1000, 250), SchemeSize("float32", 1, 1000, 1000)])
    bars = [float(node.get("width") or 0) for node in ElementTree.fromstring(svg).iter("rect")]
    assert bars[0] == pytest.approx(bars[1])
    assert bars[2] == pytest.approx(bars[0] / 4, abs=0.1)
    assert bars[3] == pytest.approx(bars[1])
    assert "<int4>: 250 B" in texts(svg)
    assert "<svg" in html_charts.sizes([SchemeSize("empty", 0, 0, 0)])
    assert "s6" in html_charts.sizes([SchemeSize(str(i), 1, 1, 1) for i in range(9)])
