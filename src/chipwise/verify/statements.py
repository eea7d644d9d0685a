"""Statements: what two bundles' figures let one say of the second beside the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from chipwise.report.html_format import DIMENSIONS, number, percent, size
from chipwise.report.measurement import Measurement
from chipwise.report.quality import DimensionScore, Quality
from chipwise.report.side_by_side import Side, Statement
from chipwise.verify.certainty.holm import holm

ALPHA = 0.05
"""A difference is called one if chance alone would make one as large in fewer than this share of such suites."""


def statements(quality: Quality | None, a: Side, b: Side, *, timed_together: bool = True) -> tuple[Statement, ...]:
    """What can be said of B: the dimensions, drift, size, speed.

    Args:
        quality: Both sides' answers to the same cases, A's in the reference's place; None if there are none.
        a: The first.
        b: The second.
        timed_together: Whether both speeds are of one run; of two, the machine's load may be all that differs.
    """
    return (*_dimensions(quality), *_texts(quality), *_costs(a, b, timed_together=timed_together))


def _dimensions(quality: Quality | None) -> Iterator[Statement]:
    rows = [row for row in quality.matrix if row.label == "all" and row.loss is not None] if quality else []
    if quality is not None and not rows:
        yield Statement("even", "no case says what is right, so neither can be called better")
    corrected = holm([1.0 if row.flips_p is None else row.flips_p for row in rows])
    for row, p in zip(rows, corrected, strict=True):
        yield _dimension(row, p)


def _dimension(row: DimensionScore, corrected_p: float) -> Statement:
    label = DIMENSIONS[row.dimension][1].lower()
    points = f"{abs(100 * row.drop):.1f}".removesuffix(".0")
    unit = "point" if points == "1" else "points"
    low, high = row.loss or (float("nan"), float("nan"))
    p = number(corrected_p, 2)
    if corrected_p > ALPHA:
        between = f"{_points(low)} to {_points(high)} points lost"
        return Statement("even", f"no difference shown in {label}: {between}, p = {p}, of {row.scored} cases")
    kind: Literal["worse", "better"] = "worse" if row.drop > 0 else "better"
    between = f"{_points(low)} to {_points(high)}" if kind == "worse" else f"{_points(-high)} to {_points(-low)}"
    return Statement(kind, f"B is {kind} on {label} by {points} {unit} ({between}, p = {p}), of {row.scored} cases")


def _points(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def _texts(quality: Quality | None) -> Iterator[Statement]:
    if quality is None or not quality.cases:
        return
    yield Statement("even", f"{quality.answers_changed} of {len(quality.cases)} answers are other texts")
    if quality.answer:
        nats = f"{number(quality.answer.kl_mean_nats)} nats"
        same = percent(quality.answer.top1_agreement)
        yield Statement("even", f"B would choose A's next token at {same} of places, {nats} away on average")


def _costs(a: Side, b: Side, *, timed_together: bool) -> Iterator[Statement]:
    if a.size_bytes and b.size_bytes:
        ratio = b.size_bytes / a.size_bytes
        words = f"{size(b.size_bytes)}, A {size(a.size_bytes)}"
        if ratio < 0.995:
            yield Statement("better", f"B is {1 / ratio:.2f}× smaller: {words}")
        elif ratio > 1.005:
            yield Statement("worse", f"B is {ratio:.2f}× as large: {words}")
        else:
            yield Statement("even", f"both are of one size: {words}")
    for name, ours, theirs in (("answers", a.decode, b.decode), ("reads prompts", a.prefill, b.prefill)):
        if ours is None or theirs is None or ours.hardware != theirs.hardware:
            continue
        ratio = theirs.value / ours.value
        words = f"{_rate(theirs)} tok/s, A {_rate(ours)}"
        # Within the spread of both there is nothing to say.
        if not timed_together:
            yield Statement("even", f"B {name} at {words}, each measured in a run of its own: no comparison")
        elif abs(theirs.value - ours.value) <= theirs.spread + ours.spread:
            yield Statement("even", f"B {name} as fast within the spread of the runs: {words}")
        else:
            yield Statement("better" if ratio > 1 else "worse", f"B {name} {ratio:.2f}× as fast: {words}")


def _rate(speed: Measurement) -> str:
    return f"{number(speed.value)} ± {number(speed.spread, 2)}" if speed.spread else number(speed.value)
