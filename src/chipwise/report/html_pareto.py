"""The plots that weigh the recipes tried: quality against size, and against speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from chipwise.report.html_charts import nice_ticks
from chipwise.report.html_format import number, percent, power_of_ten, size
from chipwise.report.html_svg import Axis, Plot
from chipwise.report.tried import TriedRecipe

_KL_FLOOR = 1e-6
_SHADES = {"pass": "s4", "fail": "s2", "unclear": "s3", None: "s3"}


def pareto_charts(tried: Sequence[TriedRecipe]) -> list[tuple[str, Markup]]:
    """A plot against size and one against speed, with captions; those for which two recipes were measured."""
    # Shares that are all the same say nothing of which is better, and drift does.
    shares = {one.right for one in tried if one.right is not None}
    quality = _right if len(shares) > 1 else _drift
    found = []
    if chart := _chart(tried, quality, _megabytes, "weights, MB", "size", smaller_is_better=True):
        found.append(("Quality against size: up and left is better", chart))
    if chart := _chart(tried, quality, _speed, "decode, tokens a second", "speed", smaller_is_better=False):
        found.append(("Quality against speed: up and right is better", chart))
    return found


def frontier(points: Sequence[tuple[float, float]], *, smaller_is_better: bool) -> list[tuple[float, float]]:
    """The points than which none is better in one way and no worse in the other, by their first value.

    Args:
        points: Cost or speed, and quality; of quality more is better.
        smaller_is_better: Whether of the first value less is better.
    """
    sign = 1.0 if smaller_is_better else -1.0
    best: list[tuple[float, float]] = []
    for point in sorted(set(points), key=lambda one: (sign * one[0], -one[1])):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return sorted(best)


def _right(one: TriedRecipe) -> float | None:
    return one.right


def _drift(one: TriedRecipe) -> float | None:
    """Nines of the drift, more for less: the reference's own is none."""
    if one.reference:
        return -math.log10(_KL_FLOOR)
    kl = one.kl_mean_nats
    return None if kl is None or not math.isfinite(kl) else -math.log10(max(kl, _KL_FLOOR))


def _megabytes(one: TriedRecipe) -> float | None:
    return one.size_bytes / 1e6 if one.size_bytes else None


def _speed(one: TriedRecipe) -> float | None:
    return one.decode_tokens_per_s


def _chart(
    tried: Sequence[TriedRecipe],
    quality: Callable[[TriedRecipe], float | None],
    cost: Callable[[TriedRecipe], float | None],
    title: str,
    what: str,
    *,
    smaller_is_better: bool,
) -> Markup | None:
    placed = [(one, x, y) for one in tried if (x := cost(one)) is not None and (y := quality(one)) is not None]
    if len(placed) < 2:
        return None
    widest = max(x for _, x, _ in placed) * 1.15
    plot = Plot(
        x=Axis(0, widest, [(v, f"{v:g}") for v in nice_ticks(widest)], title),
        y=_right_axis([y for _, _, y in placed]) if quality is _right else _drift_axis([y for _, _, y in placed]),
        label=f"Quality of {len(placed)} recipes by {what}",
        height=270,
        right=24,
    )
    best = frontier([(x, y) for _, x, y in placed], smaller_is_better=smaller_is_better)
    plot.trace(best, "s3")
    for one, x, y in placed:
        # What is kept is filled; the others are rings.
        plot.point(x, y, _SHADES[one.outcome], one.recipe, _hint(one), filled=one.kept)
    return plot.svg()


def _right_axis(values: Sequence[float]) -> Axis:
    floor = max(0.0, math.floor(10 * (min(values) - 0.05)) / 10)
    ticks = [floor, (floor + 1) / 2, 1.0]
    return Axis(floor, 1.0 + (1 - floor) * 0.12, [(v, percent(v)) for v in ticks], "answers right")


def _drift_axis(values: Sequence[float]) -> Axis:
    low, high = math.floor(min(values) - 0.3), math.ceil(max(values))
    ticks = [(float(n), ("≤ " if n == -math.log10(_KL_FLOOR) else "") + power_of_ten(-n)) for n in range(low, high + 1)]
    return Axis(low, high + 0.4, ticks, "KL divergence, nats (upwards is less)")


def _hint(one: TriedRecipe) -> str:
    parts = [one.recipe]
    if one.size_bytes:
        parts.append(size(one.size_bytes))
    if one.decode_tokens_per_s:
        parts.append(f"{number(one.decode_tokens_per_s)} tok/s")
    if one.right is not None:
        parts.append(f"{percent(one.right)} right")
    if one.kl_mean_nats is not None:
        parts.append(f"{number(one.kl_mean_nats)} nats")
    return ", ".join([*parts, one.outcome or "reference"])
