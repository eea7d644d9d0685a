"""A small SVG plot: axes, lines and bars as text that a page holds inline and its style sheet colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

WIDTH = 460
"""Width of every plot in its own units; the page scales it. At that width text of 12 units is legible on a phone."""

# Width of a letter where the page enlarges the text of a plot, on a phone.
_LETTER = 7.4
_LINE = 16.0

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        low: Value at its start, after ``transform``.
        high: Value at its end, after ``transform``.
        ticks: Values that get a mark, with their text.
        title: What it shows, with the unit.
        transform: From a value to the linear scale, e.g. a logarithm.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    title: str = ""
    transform: Scale = float

    def place(self, value: float) -> float:
        """Where a value lies, 0 at the start and 1 at the end, kept inside."""
        span = (self.high - self.low) or 1.0
        return min(1.0, max(0.0, (self.transform(value) - self.low) / span))


@dataclass
class Plot:
    """A panel with two axes that marks are added to. Coordinates are the panel's; y grows upwards.

    Attributes:
        x: Horizontal axis.
        y: Vertical axis.
        height: Height of the whole in the plot's units.
        label: What it shows, for those who cannot see it.
    """

    x: Axis
    y: Axis
    label: str
    height: int = 250
    left: int = 52
    right: int = 12
    top: int = 30
    bottom: int = 44
    _marks: list[Markup] = field(default_factory=list)
    _legend: list[tuple[str, str]] = field(default_factory=list)
    _texts: list[tuple[float, float, float]] = field(default_factory=list)

    def px(self, value: float) -> float:
        """Horizontal place of a value."""
        return self.left + self.x.place(value) * (WIDTH - self.left - self.right)

    def py(self, value: float) -> float:
        """Vertical place of a value."""
        return self.height - self.bottom - self.y.place(value) * (self.height - self.top - self.bottom)

    def line(
        self, points: Sequence[tuple[float, float, str]], css: str, legend: str = "", *, dots: bool = False
    ) -> None:
        """A line through (x, y, hint); hints show on hover. A NaN breaks it."""
        for run in _runs(points):
            path = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y, _ in run)
            self._marks.append(element("polyline", class_=f"line {css}", points=path))
            shown, radius = ("", 2.6) if dots or len(run) == 1 else (" hidden", 4)
            for x, y, hint in run:
                title, css_class = element("title", hint), f"dot {css}{shown}"
                self._marks.append(element("circle", title, class_=css_class, cx=self.px(x), cy=self.py(y), r=radius))
        self._name(css, legend)

    def bar(self, x0: float, x1: float, y: float, css: str, hint: str, legend: str = "") -> None:
        """A bar from the bottom to ``y``."""
        left, right, top = self.px(x0), self.px(x1), self.py(y)
        place = {"x": left, "y": top, "width": max(0.5, right - left - 0.6), "height": self._foot - top}
        self._marks.append(element("rect", element("title", hint), class_=f"bar {css}", **place))
        self._name(css, legend)

    def trace(self, points: Sequence[tuple[float, float]], css: str) -> None:
        """A thin line through (x, y), behind marks that are added later."""
        path = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in points)
        self._marks.append(element("polyline", class_=f"trace {css}", points=path))

    def point(self, x: float, y: float, css: str, text: str, hint: str, *, filled: bool) -> None:
        """A mark with a text above it, or below where another text is; a ring unless filled."""
        at, height = self.px(x), self.py(y)
        half = _LETTER * len(text) / 2
        middle = min(max(at, self.left + half), WIDTH - half)
        line = height - 11
        while any(
            abs(line - other) < _LINE and abs(middle - place) < half + width for place, other, width in self._texts
        ):
            line += 2 * _LINE + 2 if line < height else _LINE
        self._texts.append((middle, line, half))
        mark = "mark filled" if filled else "mark"
        self._marks += [
            element("circle", element("title", hint), class_=f"{mark} {css}", cx=at, cy=height, r=5.5),
            element("text", text, class_="note", x=middle, y=line, text_anchor="middle"),
        ]

    def rule(self, x: float, text: str) -> None:
        """A vertical line with a text beside it, on the side where there is room."""
        at = self.px(x)
        note_x, anchor = (at - 5, "end") if at > 0.65 * WIDTH else (at + 5, "start")
        self._marks += [
            element("line", class_="rule", x1=at, x2=at, y1=self.top, y2=self._foot),
            element("text", text, class_="note", x=note_x, y=self.top + 11, text_anchor=anchor),
        ]

    def svg(self) -> Markup:
        """The whole plot."""
        parts = Markup("").join([*self._axes(), *self._marks, *self._key()])
        return element("svg", parts, viewBox=f"0 0 {WIDTH} {self.height}", role="img", aria_label=self.label)

    @property
    def _foot(self) -> int:
        return self.height - self.bottom

    def _name(self, css: str, legend: str) -> None:
        if legend and (css, legend) not in self._legend:
            self._legend.append((css, legend))

    def _axes(self) -> list[Markup]:
        end, middle = WIDTH - self.right, (self.left + WIDTH - self.right) / 2
        parts = []
        for value, text in self.y.ticks:
            at = self.py(value)
            parts.append(element("line", class_="grid", x1=self.left, x2=end, y1=at, y2=at))
            parts.append(element("text", text, class_="tick", x=self.left - 7, y=at + 4, text_anchor="end"))
        for value, text in self.x.ticks:
            parts.append(
                element("text", text, class_="tick", x=self.px(value), y=self._foot + 16, text_anchor="middle")
            )
        parts.append(element("line", class_="axis", x1=self.left, x2=end, y1=self._foot, y2=self._foot))
        parts.append(element("text", self.x.title, x=middle, y=self.height - 6, text_anchor="middle"))
        parts.append(element("text", self.y.title, x=0, y=12))
        return parts

    def _key(self) -> list[Markup]:
        parts, at = [], WIDTH - self.right
        for css, text in reversed(self._legend):
            at -= round(_LETTER * len(text))
            parts.append(element("text", text, x=at, y=12))
            parts.append(element("rect", class_=f"key {css}", x=at - 17, y=5, width=12, height=5))
            at -= 34
        return parts


def element(name: str, content: str = "", /, **attributes: str | float) -> Markup:
    """An SVG element. Text is escaped, Markup is not; ``class_`` becomes class and ``text_anchor`` text-anchor."""
    written = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        )
        for key, value in attributes.items()
    )
    tag = Markup(name)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, content)


def _runs(points: Sequence[tuple[float, float, str]]) -> list[list[tuple[float, float, str]]]:
    """The points between those that are NaN."""
    runs: list[list[tuple[float, float, str]]] = [[]]
    for point in points:
        if not math.isnan(point[1]):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]
