"""Calibration: the ranges of values inside a graph, gathered by running it on real inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.errors import InputError, RewriteError
from chipwise.quant.histogram import Histogram
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Progress = Callable[[int, int], None]

# Values of one run that lie in memory at once; a graph with more is run again for the rest.
_MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class ValueRange:
    """What was seen of a value.

    Attributes:
        low: The smallest.
        high: The largest.
        histogram: How often what occurred; None if only the ends were kept.
    """

    low: float
    high: float
    histogram: Histogram | None = None

    def clipped(self, share: float) -> ValueRange:
        """The range without its rarest values: at least ``share`` of those seen lie in it."""
        if self.histogram is None or share >= 1:
            return self
        low, high = self.histogram.span(share)
        return ValueRange(max(low, self.low), min(high, self.high), self.histogram)

    def tightened(self) -> ValueRange:
        """The range whose 8-bit steps lose least of what was seen: rare values are clipped where that pays."""
        if self.histogram is None:
            return self
        low, high = self.histogram.least_error(self.low, self.high)
        return ValueRange(low, high, self.histogram)


Ranges = dict[str, ValueRange]


def calibrate(
    model: ir.Model,
    feeds: Collection[Feed],
    names: Sequence[str],
    *,
    histograms: bool = False,
    threads: int = 2,
    max_bytes: int = _MAX_BYTES,
    progress: Progress | None = None,
) -> Ranges:
    """Run a graph on every sample and keep the range of the named values.

    Nothing of a sample outlives its run: what is kept a value is two numbers and, if asked for, 4096 counts.

    Args:
        model: The graph in floating point. It is not changed.
        feeds: The samples. They are gone through once for every group of values that fits ``max_bytes``.
        names: Values that nodes compute, or graph inputs.
        histograms: Whether to count values too, for ``ValueRange.clipped``.
        threads: Threads of a run; 0 for one a core.
        max_bytes: Bytes that the values of one run may take.
        progress: Told the runs done and their total.

    Returns:
        The range of each value, by name, in the order of ``names``.

    Raises:
        InputError: There are no samples, or one does not fit the graph.
        RewriteError: The graph fails, computes no such value, or one that is NaN or infinite.
    """
    if not len(feeds):
        raise InputError(
            "no calibration samples", remedy="give --queries (or --samples for an ONNX file) with at least one entry"
        )
    kept: dict[str, _Kept] = {name: _Kept(histograms) for name in dict.fromkeys(names)}
    inputs = {str(value.name) for value in model.graph.inputs}
    computed = [name for name in kept if name not in inputs]
    groups = list(value_groups(model, next(iter(feeds)), computed, threads, max_bytes))
    done = 0
    for index, group in enumerate(groups or [[]]):
        runner = Runner(tapped(model, group), threads=threads, label="the graph in calibration")
        for number, feed in enumerate(feeds):
            found: dict[str, npt.NDArray[Any]] = runner.run(feed, group) if group else {}
            if index == 0:
                found |= {name: np.asarray(feed[name]) for name in kept if name in inputs and name in feed}
            for name, values in found.items():
                kept[name].add(values, name, number)
            done += 1
            if progress:
                progress(done, max(1, len(groups)) * len(feeds))
    return {name: one.range() for name, one in kept.items()}


class _Kept:
    """The range of one value so far."""

    def __init__(self, histograms: bool) -> None:
        self._low, self._high = np.inf, -np.inf
        self._histogram = Histogram() if histograms else None

    def add(self, values: npt.NDArray[Any], name: str, sample: int) -> None:
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise RewriteError(
                f"NaN or infinite in calibration sample {sample + 1}",
                where=f"value {name}",
                remedy="the model itself overflows there: leave the sample out, or lower its mask constant",
            )
        self._low, self._high = min(self._low, low), max(self._high, high)
        if self._histogram is not None:
            self._histogram.add(values)

    def range(self) -> ValueRange:
        if self._low > self._high:
            return ValueRange(0.0, 0.0, self._histogram)
        return ValueRange(self._low, self._high, self._histogram)


def value_groups(
    model: ir.Model, feed: Feed, names: Sequence[str], threads: int, max_bytes: int = _MAX_BYTES
) -> Iterator[list[str]]:
    """The names in groups whose values take at most ``max_bytes``, as one run on a sample shows.

    Raises:
        RewriteError: The graph fails, or computes no such value.
    """
    if not names:
        return
    probe = tapped(model, names)
    sizes = []
    for value in list(probe.graph.outputs):
        node = ir.node("Size", [value])
        node.outputs[0].type = ir.TensorType(ir.DataType.INT64)
        probe.graph.append(node)
        sizes.append(node.outputs[0])
    probe.graph.outputs[:] = sizes
    counts = Runner(probe, threads=threads, label="the graph in calibration").run(feed)
    group: list[str] = []
    used = 0
    for name, count in zip(names, counts.values(), strict=True):
        size = int(count) * 4
        if group and used + size > max_bytes:
            yield group
            group, used = [], 0
        group.append(name)
        used += size
    yield group


def tapped(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """A copy of a graph whose outputs are some of its inner values."""
    copy = model.clone()
    computed = {value.name: value for node in copy.graph for value in node.outputs}
    missing = [name for name in names if name not in computed]
    if missing:
        raise RewriteError(f"the graph computes no value named {missing[0]!r}", where=copy.graph.name)
    copy.graph.outputs[:] = [computed[name] for name in names]
    for value in copy.graph.outputs:
        value.dtype = value.dtype or ir.DataType.FLOAT
    return copy


@dataclass(frozen=True)
class Excess:
    """A value that went beyond what calibration had seen.

    Attributes:
        name: The value.
        calibrated: Its range in calibration.
        seen: Its range elsewhere.
        factor: By how much the range would have to grow, 1.0 for not at all.
    """

    name: str
    calibrated: ValueRange
    seen: ValueRange
    factor: float


def exceeding(calibrated: Mapping[str, ValueRange], seen: Mapping[str, ValueRange], *, slack: float) -> list[Excess]:
    """The values that were seen beyond their calibrated range, the worst first.

    Args:
        calibrated: Ranges that the scales were set by.
        seen: Ranges of the same values on other inputs.
        slack: Share of the calibrated range that a value may lie beyond its ends.
    """
    found = []
    for name, have in calibrated.items():
        if name not in seen:
            continue
        span = have.high - have.low
        beyond = max(have.low - seen[name].low, seen[name].high - have.high)
        if beyond > slack * span:
            factor = float("inf") if span == 0 else 1 + beyond / span
            found.append(Excess(name, have, seen[name], factor))
    return sorted(found, key=lambda one: -one.factor)
