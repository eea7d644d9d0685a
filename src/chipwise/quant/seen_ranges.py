"""SeenRanges: the ranges that scales were set by, and how other inputs compare with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from chipwise.quant.calibration import Excess, Ranges, calibrate, exceeding
from chipwise.report.finding import Finding
from chipwise.rewrite.pass_ import Feed

# Share of its range that a value may lie beyond it before that is worth a warning: a few more samples of the same kind
# often reach a little further than the first ones.
_SLACK = 0.25
_NAMED = 3


@dataclass(frozen=True)
class SeenRanges:
    """Calibrated ranges with the graph they were seen in.

    Attributes:
        load: Gives the floating-point graph.
        ranges: The ranges by value.
        feed: Makes the graph's inputs of a sample: a prompt's token ids, or named arrays as they are.
    """

    load: Callable[[], ir.Model]
    ranges: Ranges
    feed: Callable[[Any], Feed]

    def excess(self, samples: Sequence[Any], *, threads: int) -> list[Excess]:
        """The values that other samples drive beyond their calibrated range, the worst first; none without samples.

        Raises:
            RewriteError: The graph fails on an input.
            InputError: A sample does not fit the graph.
        """
        if not samples:
            return []
        feeds = [self.feed(sample) for sample in samples]
        return exceeding(self.ranges, calibrate(self.load(), feeds, list(self.ranges), threads=threads), slack=_SLACK)

    def findings(self, samples: Sequence[Any], *, threads: int) -> tuple[Finding, ...]:
        """One warning if samples go beyond what calibration saw: they are clipped, and nothing else tells."""
        found = self.excess(samples, threads=threads)
        if not found:
            return ()
        worst = found[0]
        names = ", ".join(one.name for one in found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        return (
            Finding(
                rule="calibration_range",
                severity="warning",
                where=names,
                measured=f"{worst.seen.low:.3g} to {worst.seen.high:.3g}",
                limit=f"{worst.calibrated.low:.3g} to {worst.calibrated.high:.3g}, as seen in calibration",
                message=f"{len(found)} of {len(self.ranges)} values go beyond their calibrated range and are clipped.",
                remedy="Calibrate with queries like those that will be asked (--queries, --samples).",
            ),
        )
