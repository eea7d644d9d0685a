from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from chipwise.report.html_pareto import frontier, pareto_charts
from chipwise.report.tried import TriedRecipe
from tests.report.samples import tried

Points = list[tuple[float, float]]
POINTS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


@given(POINTS, st.booleans())
def test_the_frontier_is_what_nothing_beats(points: Points, smaller_is_better: bool) -> None:
    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        cost = one[0] <= other[0] if smaller_is_better else one[0] >= other[0]
        return cost and one[1] >= other[1] and one != other

    best = frontier(points, smaller_is_better=smaller_is_better)
    assert set(best) == {point for point in points if not any(beats(other, point) for other in points)}
    assert best == sorted(best)


def marks(svg: str) -> dict[str, tuple[float, float, str]]:
    found = {}
    for node in ElementTree.fromstring(svg).iter("circle"):
        name = (node.findtext("title") or "").split(",")[0]
        found[name] = (float(node.get("cx") or 0), float(node.get("cy") or 0), node.get("class") or "")
    return found


def test_better_lies_where_the_caption_says() -> None:
    (by_size, small), (by_speed, fast) = pareto_charts(tried(passed=False))
    assert "up and left" in by_size
    assert "up and right" in by_speed
    for svg in (small, fast):
        at = marks(svg)
        assert at["w8a16"][1] < at["w4a16"][1]  # y grows downwards
        assert "filled" in at["w4a16"][2]
        assert "filled" not in at["w8a16"][2]
    assert marks(small)["w4a16"][0] < marks(small)["fp32"][0]
    assert marks(fast)["w4a16"][0] > marks(fast)["fp32"][0]


def test_equal_shares_are_told_apart_by_drift() -> None:
    recipes = (
        TriedRecipe("fp32", 10_000_000, right=1.0, reference=True),
        TriedRecipe("w4a16", 2_000_000, kl_mean_nats=0.02, right=1.0, outcome="pass"),
        TriedRecipe("w8a16", 3_000_000, kl_mean_nats=0.001, right=1.0, outcome="pass", kept=True),
        TriedRecipe("broken", 1_000_000, kl_mean_nats=float("nan"), outcome="fail"),
    )
    ((_, svg),) = pareto_charts(recipes)
    assert "KL divergence" in svg
    at = marks(svg)
    assert set(at) == {"fp32", "w4a16", "w8a16"}
    assert at["fp32"][1] < at["w8a16"][1] < at["w4a16"][1]


def test_one_recipe_is_no_plot() -> None:
    assert pareto_charts(tried(passed=True)[:1]) == []
    assert pareto_charts(()) == []
    assert pareto_charts((TriedRecipe("a", right=0.5), TriedRecipe("b", right=0.6))) == []


def test_names_of_marks_that_lie_together_do_not_overlap() -> None:
    close = tuple(
        TriedRecipe(f"recipe_{i}", 5_000_000 + i * 1000, right=0.9 + i * 0.0001, outcome="pass") for i in range(5)
    )
    ((_, svg),) = pareto_charts(close)
    places = [
        (float(m[1]), float(m[2]))
        for m in re.finditer(r'<text class="note" x="([\d.]+)" y="([\d.-]+)"[^>]*>recipe', svg)
    ]
    assert len(places) == 5
    assert all(abs(a[1] - b[1]) >= 15 for i, a in enumerate(places) for b in places[:i])
