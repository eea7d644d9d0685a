"""The plots of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from chipwise.report.html_format import number, percent, power_of_ten, size
from chipwise.report.html_svg import WIDTH, Axis, Plot, element
from chipwise.report.quality import AnswerPosition, KlHistogram
from chipwise.report.report import LayerCosine, SchemeSize

# Below this a mean over cases says more about the cases than about the place.
_MIN_CASES = 3

# 1 - cosine of float32 sums is noise below it; anti-parallel is 2.
_NINES_LOW, _NINES_HIGH = 0.0, 6.0

MAX_SCHEMES = 6

# Two plots of it, with their captions, are as high as one.
_HALF_HEIGHT = 128

# Room for the words before the bars of sizes and for the figure behind them.
_SIZES_LEFT, _SIZES_RIGHT = 52, 84


def kl_histogram(histogram: KlHistogram, mean_nats: float) -> Markup:
    """Share of positions by KL divergence: answer tokens as bars, prompt tokens as a line."""
    answer, prompt = _shares(histogram.answer), _shares(histogram.prompt)
    top = max([*answer, *prompt, 0.01])
    edges = histogram.edges_nats
    decades = range(round(math.log10(edges[0])), round(math.log10(edges[-1])) + 1)
    plot = Plot(
        x=Axis(
            math.log10(edges[0]),
            math.log10(edges[-1]),
            [(10.0**d, {decades[0]: "≤ ", decades[-1]: "≥ "}.get(d, "") + power_of_ten(d)) for d in decades],
            "KL divergence, nats",
            math.log10,
        ),
        y=Axis(0, top * 1.08, _share_ticks(top), "share of positions"),
        label="Histogram of KL divergence over token positions",
        height=290,
    )
    for i, share in enumerate(answer):
        hint = f"{number(edges[i])} to {number(edges[i + 1])} nats: {histogram.answer[i]} answer tokens"
        plot.bar(edges[i], edges[i + 1], share, "s1", hint, "answer tokens")
    if any(histogram.prompt):
        steps = [
            (edge, share, f"{histogram.prompt[i]} prompt tokens")
            for i, share in enumerate(prompt)
            for edge in edges[i : i + 2]
        ]
        plot.line(steps, "s2", "prompt tokens")
    if math.isfinite(mean_nats) and mean_nats > 0:
        plot.rule(mean_nats, f"answer mean {number(mean_nats)}")
    return plot.svg()


def kl_along_answer(positions: Sequence[AnswerPosition]) -> Markup:
    """Mean KL divergence at each place of the answer."""
    shown = _enough(positions)
    top = max([p.kl_mean_nats for p in shown if math.isfinite(p.kl_mean_nats)], default=0.0) * 1.1 or 1e-6
    plot = Plot(
        x=_answer_axis(shown),
        y=Axis(0, top, [(v, f"{v:g}") for v in nice_ticks(top)], "mean, nats"),
        label="Mean KL divergence along the answer",
        height=_HALF_HEIGHT,
    )
    points = [(p.index + 1, p.kl_mean_nats, _hint(p, f"{number(p.kl_mean_nats)} nats")) for p in shown]
    plot.line(points, "s1", dots=len(shown) <= 40)
    return plot.svg()


def agreement_along_answer(positions: Sequence[AnswerPosition]) -> Markup:
    """Top-1 agreement at each place of the answer."""
    shown = _enough(positions)
    lowest = min([p.top1_agreement for p in shown], default=1.0)
    floor = max(0.0, math.floor(10 * (lowest - 0.02)) / 10)
    ticks = [floor, (1 + floor) / 2, 1.0]
    plot = Plot(
        x=_answer_axis(shown),
        y=Axis(floor, 1.0, [(v, percent(v)) for v in ticks], "share of cases"),
        label="Top-1 agreement along the answer",
        height=_HALF_HEIGHT,
    )
    points = [(p.index + 1, p.top1_agreement, _hint(p, percent(p.top1_agreement))) for p in shown]
    plot.line(points, "s1", dots=len(shown) <= 40)
    return plot.svg()


def layer_cosines(layers: Sequence[LayerCosine]) -> Markup:
    """Cosines along the layers on a scale of nines: 0.9, 0.99, 0.999 lie evenly apart."""
    last = max(1, len(layers) - 1)
    every = max(1, math.ceil(len(layers) / 10))
    plot = Plot(
        x=Axis(0, last, [(i, _layer_number(v.name, i)) for i, v in enumerate(layers) if i % every == 0], "layer"),
        y=Axis(
            _NINES_LOW,
            _NINES_HIGH,
            [(0.0, "0"), *((1 - 10.0**-n, f"{1 - 10.0**-n:.{n}f}") for n in range(1, 7))],
            "cosine",
            lambda cosine: -math.log10(max(10.0**-_NINES_HIGH, 1 - cosine)),
        ),
        label=f"Cosine by layer, {layers[0].name} to {layers[-1].name}",
        left=66,
    )
    for name, css, values in (
        ("whole", "s3", [v.whole for v in layers]),
        ("mean channel", "s1", [v.mean for v in layers]),
        ("worst channel", "s2", [v.min for v in layers]),
    ):
        points = [
            (float(i), value, f"{layer.name}, {name}: {value:.6f}")
            for i, (layer, value) in enumerate(zip(layers, values, strict=True))
        ]
        plot.line(points, css, name, dots=True)
    return plot.svg()


def sizes(schemes: Sequence[SchemeSize]) -> Markup:
    """Bytes before and after, one bar each, by scheme."""
    before, after = [s.bytes_before for s in schemes], [s.bytes_after for s in schemes]
    widest = max(sum(before), sum(after), 1)
    parts: list[Markup] = []
    for name, parts_bytes, y in (("before", before, 4), ("after", after, 42)):
        parts.append(element("text", name, x=0, y=y + 19))
        x = float(_SIZES_LEFT)
        for i, (scheme, n_bytes) in enumerate(zip(schemes, parts_bytes, strict=True)):
            width = (WIDTH - _SIZES_LEFT - _SIZES_RIGHT) * n_bytes / widest
            hint = element("title", f"{scheme.scheme}: {size(n_bytes)}")
            css = f"bar s{1 + min(i, MAX_SCHEMES - 1)}"
            parts.append(element("rect", hint, class_=css, x=x, y=y, width=width, height=28))
            x += width
        parts.append(element("text", size(sum(parts_bytes)), class_="value", x=x + 7, y=y + 19))
    label = f"Size before {size(sum(before))}, after {size(sum(after))}"
    return element("svg", Markup("").join(parts), viewBox=f"0 0 {WIDTH} 76", role="img", aria_label=label)


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts) or 1
    return [count / total for count in counts]


def _share_ticks(top: float) -> list[tuple[float, str]]:
    return [(value, percent(value)) for value in nice_ticks(top)]


def nice_ticks(top: float) -> list[float]:
    """A few round steps from zero to ``top`` at most."""
    raw = top / 3
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    return [i * step for i in range(int(top / step) + 1)]


def _enough(positions: Sequence[AnswerPosition]) -> list[AnswerPosition]:
    needed = min(_MIN_CASES, max((p.cases for p in positions), default=0))
    return [p for p in positions if p.cases >= needed]


def _answer_axis(positions: Sequence[AnswerPosition]) -> Axis:
    last = max([p.index + 1 for p in positions], default=1)
    step = max(1, math.ceil(last / 8))
    return Axis(1, max(2, last), [(v, str(v)) for v in range(1, last + 1, step)], "token of the answer")


def _hint(position: AnswerPosition, text: str) -> str:
    return f"token {position.index + 1}: {text} ({position.cases} cases)"


def _layer_number(name: str, index: int) -> str:
    digits = [part for part in name.split(".") if part.isdigit()]
    return digits[0] if digits else str(index)
