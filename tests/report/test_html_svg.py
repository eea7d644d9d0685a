from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from chipwise.report.html_svg import WIDTH, Axis, Plot, element


def plot() -> Plot:
    return Plot(Axis(0, 10, [(0, "0"), (10, "10")], "x <title>"), Axis(0, 1, [(0, "0"), (1, "1")], "y"), 'a "label"')


def test_values_lie_where_they_belong() -> None:
    panel = plot()
    assert panel.px(0) == panel.left
    assert panel.px(10) == WIDTH - panel.right
    assert panel.py(0) == panel.height - panel.bottom
    assert panel.py(1) == panel.top
    assert panel.px(99) == panel.px(10)
    assert panel.py(-5) == panel.py(0)


def test_a_scale_without_extent_has_a_place() -> None:
    assert Axis(3, 3, []).place(3) == 0


def test_a_logarithm() -> None:
    axis = Axis(-2, 2, [], transform=math.log10)
    assert axis.place(1) == pytest.approx(0.5)


def test_a_nan_breaks_a_line() -> None:
    panel = plot()
    panel.line([(0, 0.1, "a"), (1, 0.2, "b"), (2, math.nan, "c"), (3, 0.4, "d"), (4, 0.5, "e")], "s1")
    svg = panel.svg()
    assert svg.count("<polyline") == 2
    assert "nan" not in svg
    assert svg.count("<circle") == 4


def test_a_lone_point_is_seen() -> None:
    panel = plot()
    panel.line([(1, 0.5, "only")], "s1")
    assert "hidden" not in panel.svg()


def test_it_is_well_formed_and_escaped() -> None:
    panel = plot()
    panel.bar(1, 2, 0.5, "s1", "<script>", "one & two")
    panel.rule(9, "late")
    panel.rule(1, "early")
    panel.line([(0, 0.1, "<b>")], "s2", "a line")
    root = ElementTree.fromstring(panel.svg())
    texts = [node.text for node in root.iter()]
    assert {"<script>", "one & two", "<b>", "x <title>"} <= set(texts)
    assert root.get("aria-label") == 'a "label"'


def test_notes_stay_inside() -> None:
    panel = plot()
    panel.rule(9, "late")
    panel.rule(1, "early")
    assert re.search(r'text-anchor="end">late', panel.svg())
    assert re.search(r'text-anchor="start">early', panel.svg())


def test_a_series_is_named_once() -> None:
    panel = plot()
    for x in range(3):
        panel.bar(x, x + 1, 0.5, "s1", "", "bars")
    assert panel.svg().count(">bars<") == 1


def test_element_escapes_text_and_attributes() -> None:
    assert element("text", "<&", class_='a"b', x=1.26, text_anchor="end") == (
        '<text class="a&#34;b" x="1.3" text-anchor="end">&lt;&amp;</text>'
    )
    assert element("g", element("line", x1=2.0)) == '<g><line x1="2"></line></g>'
