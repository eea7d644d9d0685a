"""StepCost: how long a step takes, learned from those that ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["prefill", "decode", "draft"]

# A step weighs half as much once this many others have followed: boards heat up and clocks change.
_HALF_LIFE_STEPS = 32
_DECAY = 0.5 ** (1 / _HALF_LIFE_STEPS)
# A step that took this many times as long as foreseen (a page fault, another process) counts as that long.
_OUTLIER = 4.0


@dataclass
class _Line:
    """``seconds = base + slope * size``, by least squares over decaying sums; both parts at least 0."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def learn(self, size: int, duration_s: float) -> None:
        if self.weight >= 2:
            duration_s = min(duration_s, _OUTLIER * max(self.predict(size), 1e-6))
        for name in ("weight", "x", "y", "xx", "xy"):
            setattr(self, name, getattr(self, name) * _DECAY)
        self.weight += 1
        self.x += size
        self.y += duration_s
        self.xx += size * size
        self.xy += size * duration_s

    @property
    def fit(self) -> tuple[float, float]:
        """Base and slope."""
        mean_x, mean_y = self.x / self.weight, self.y / self.weight
        spread = self.xx / self.weight - mean_x * mean_x
        through_origin = 0.0, self.xy / self.xx
        # Sizes that hardly differ say nothing of the slope.
        if spread < 1e-3 * mean_x * mean_x:
            return through_origin
        slope = (self.xy / self.weight - mean_x * mean_y) / spread
        base = mean_y - slope * mean_x
        if slope < 0:
            return mean_y, 0.0
        return through_origin if base < 0 else (base, slope)

    def predict(self, size: int) -> float:
        base, slope = self.fit
        return base + slope * size


@dataclass
class StepCost:
    """What steps cost: a prefill by its tokens, a decode by its rows. The durations are passed in.

    ``draft`` is what a decode takes longer when it checks guessed tokens, by their number, padding included.
    """

    _lines: dict[Kind, _Line] = field(default_factory=lambda: {kind: _Line() for kind in get_args(Kind)})

    def learn(self, kind: Kind, size: int, duration_s: float) -> None:
        """A step of ``size`` tokens (prefill, draft) or rows (decode) took this long."""
        if size > 0 and duration_s >= 0:
            self._lines[kind].learn(size, duration_s)

    def predict_s(self, kind: Kind, size: int) -> float | None:
        """How long a step will take; None until one of its kind has run."""
        line = self._lines[kind]
        return line.predict(size) if line.weight else None

    def tokens_within(self, budget_s: float, least: int, most: int) -> int | None:
        """The most tokens whose prefill stays within a time; None until one has run.

        Never fewer than ``least``, unless a step takes no more than ``most``.
        """
        line = self._lines["prefill"]
        if not line.weight:
            return None
        base, slope = line.fit
        if slope * most + base <= budget_s:
            return most
        return min(most, max(least, int((budget_s - base) / slope))) if slope else min(least, most)
