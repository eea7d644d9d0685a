"""The gate for graphs that are no decoders: how close their outputs must stay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from chipwise.build.compared_outputs import ComparedOutputs
from chipwise.report import Verdict
from chipwise.verify.thresholds import check_overrides


@dataclass(frozen=True)
class GraphThresholds:
    """What a candidate must hold, for its worst output. The defaults are for 8-bit weights.

    The cosine of the whole output alone hides damage: outlier channels read 0.9997 whole and 0.51 a channel in
    Rockchip's simulator.

    Attributes:
        output_cosine: Cosine of an output taken as one vector over all samples, at least.
        channel_cosine: Mean over an output's channels of each channel's cosine, at least.
        samples_nonfinite: Samples with a NaN or infinity in an output, at most.
        gain_error: How far the factor by which an output follows the float graph's is from 1, at most.
        values_equal: Share of equal values of an output of integers or flags, at least. Two numbers that nearly tie
            change places in float16 too.
    """

    output_cosine: float = 0.99
    channel_cosine: float = 0.98
    samples_nonfinite: float = 0
    values_equal: float = 0.95
    gain_error: float = 0.05

    @classmethod
    def for_weight_bits(cls, bits: int) -> GraphThresholds:
        """The defaults for weights of some width."""
        if bits >= 16:
            return cls(0.9999, 0.999, values_equal=0.99, gain_error=0.01)
        return cls() if bits >= 8 else cls(0.97, 0.95, values_equal=0.9, gain_error=0.1)

    def with_overrides(self, values: Mapping[str, float]) -> GraphThresholds:
        """These thresholds with some set by the user.

        Raises:
            InputError: A name is no threshold's, or a value is no number.
        """
        check_overrides(values, [field.name for field in fields(self)])
        return replace(self, **values)


def judge_graph(found: ComparedOutputs, thresholds: GraphThresholds) -> tuple[Verdict, ...]:
    """Hold the worst output against the thresholds. A NaN never passes, and no output is no pass."""
    verdicts = []
    if found.outputs or not found.equal:
        whole = min((_ordered(one.whole) for one in found.outputs), default=-1.0)
        channels = min((_ordered(one.mean) for one in found.outputs), default=-1.0)
        verdicts.append(Verdict.judge("output_cosine", whole, thresholds.output_cosine, "min"))
        verdicts.append(Verdict.judge("channel_cosine", channels, thresholds.channel_cosine, "min"))
    if found.gains:
        error = max(math.inf if math.isnan(gain) else abs(gain - 1) for gain in found.gains.values())
        verdicts.append(Verdict.judge("gain_error", error, thresholds.gain_error, "max"))
    verdicts.append(Verdict.judge("samples_nonfinite", found.nonfinite, thresholds.samples_nonfinite, "max"))
    if found.equal:
        verdicts.append(Verdict.judge("values_equal", min(found.equal.values()), thresholds.values_equal, "min"))
    return tuple(verdicts)


def _ordered(cosine: float) -> float:
    """A NaN as the worst there is: ``min`` would pass over it."""
    return -1.0 if math.isnan(cosine) else cosine
