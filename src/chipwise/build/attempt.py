"""Attempt: one way to bring a graph to a recipe's precision, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_trial import GraphTrial
from chipwise.quant.recipe import Recipe

Algorithm = Literal["normal", "mmse", "kl_divergence", "gdq"]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Attempt:
    """One way.

    Attributes:
        recipe: The recipe.
        graph: The graph that is quantized, in float32; equal in what it computes to the one it is compared with.
        changes: What was done to the plain build, step by step, in words.
        algorithm: How the chip's toolkit chooses scales.
        ranges: The ends of values, in place of those that calibration saw.
        float16: Values that stay in float16.
        weightless_float16: Whether all operators without weights do.
    """

    recipe: Recipe
    graph: GraphFile
    changes: tuple[str, ...] = ()
    algorithm: Algorithm = "normal"
    ranges: Mapping[str, Ends] = field(default_factory=dict)
    float16: tuple[str, ...] = ()
    weightless_float16: bool = False

    @property
    def change(self) -> str:
        """What differs from the attempt that it started from."""
        return self.changes[-1] if self.changes else "plain"

    def changed(self, change: str, **fields: Any) -> Attempt:
        """This attempt with something changed, and the words for it."""
        return replace(self, changes=(*self.changes, change), **fields)


@dataclass(frozen=True)
class Tried:
    """An attempt and what came of it.

    Attributes:
        attempt: The attempt.
        trial: What verification said; None if it could not be built.
        note: Why not.
    """

    attempt: Attempt
    trial: GraphTrial | None
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the gate held."""
        return self.trial is not None and self.trial.passed

    @property
    def rank(self) -> tuple[float, ...]:
        """The larger the better: a gate that holds with the fewest values in float16, else the closest outputs."""
        if self.trial is None:
            return (-1.0,)
        if self.trial.passed:
            return (1.0, -len(self.attempt.float16) - float(self.attempt.weightless_float16))
        channel, whole = worst(self.trial)
        integers = min(self.trial.equal.values(), default=1.0)
        return (0.0, -float(self._errors), channel, whole, integers)

    @property
    def _errors(self) -> int:
        """What no closeness of outputs makes up for: compiler errors, samples that are not finite."""
        if self.trial is None:
            return 0
        counts = [verdict for verdict in self.trial.verdicts if verdict.direction == "max"]
        return sum(not verdict.passed for verdict in counts)

    @property
    def compiled(self) -> CompiledGraph | None:
        """The compiled graph; None where a chip is emulated, or nothing was built."""
        candidate = None if self.trial is None else self.trial.candidate
        return candidate if isinstance(candidate, CompiledGraph) else None


def worst(trial: GraphTrial) -> tuple[float, float]:
    """The worst output's mean cosine of a channel, and the worst whole cosine; NaN counts as -1."""
    channel = [-1.0 if math.isnan(one.mean) else one.mean for one in trial.outputs]
    whole = [-1.0 if math.isnan(one.whole) else one.whole for one in trial.outputs]
    return min(channel, default=-1.0), min(whole, default=-1.0)
