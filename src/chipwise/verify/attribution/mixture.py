"""Mixture: two graphs of one decoder run as one, some parts by the one and the others by the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chipwise.rewrite.pass_ import Feed
from chipwise.verify.attribution.layer import Part
from chipwise.verify.attribution.split_graph import SplitGraph, Values

Side = Literal["reference", "candidate"]
OTHER: Mapping[Side, Side] = {"reference": "candidate", "candidate": "reference"}


@dataclass(frozen=True)
class Mixture:
    """Two graphs with the same parts, and their inputs for one run.

    Attributes:
        graphs: The graph of each side.
        feeds: Each side's inputs.
    """

    graphs: Mapping[Side, SplitGraph]
    feeds: Mapping[Side, Feed]

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of both."""
        return self.graphs["reference"].parts

    def whole(self, side: Side, past: Values | None = None) -> dict[str, npt.NDArray[Any]]:
        """Every boundary value of one side, run on its own activations."""
        values: dict[str, npt.NDArray[Any]] = dict(past or {})
        for part in self.parts:
            values |= self.graphs[side].run(part, values, self.feeds[side])
        return values

    def swapped(
        self, side: Side, base: Values, chosen: Collection[str], past: Values | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Every boundary value with some parts run by the other side; what they do not reach is taken as it was.

        Args:
            side: The side that runs the other parts.
            base: What it computes whole.
            chosen: Names of the parts that the other side runs.
            past: A cache in place of the base's.
        """
        values: dict[str, npt.NDArray[Any]] = {**base, **(past or {})}
        changed = {name for name in past or {} if base.get(name) is not values[name]}
        cached = {name for name in changed if name.startswith("past.")}
        for part in self.parts:
            reads = set(part.inputs) | {name for name in cached if _reads_past(part, name)}
            if part.name not in chosen and not reads & changed:
                continue
            runs = OTHER[side] if part.name in chosen else side
            for name, array in self.graphs[runs].run(part, values, self.feeds[runs]).items():
                # What comes out as it was changes nothing behind it.
                if not np.array_equal(array, values[name]):
                    values[name] = array
                    changed.add(name)
        return values


def _reads_past(part: Part, name: str) -> bool:
    """Whether a part reads a layer's cache input, ``past.N.key``."""
    layer = name.split(".")[1]
    return part.name in (f"layers.{layer}.kv_cache", f"layers.{layer}.attention")
