"""StepWise: how a kernel lowers a clock in the heat, one step at a time (drivers/thermal/gov_step_wise.c)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepWise:
    """The governor. Pure: it gets the highest step allowed so far and gives the next one.

    Attributes:
        passive_c: At or above it the clock goes down a step.
        hysteresis_c: Below ``passive_c`` by more than this it goes up a step; between them it stays.
        top_step: The highest step of the table.
    """

    passive_c: float
    hysteresis_c: float
    top_step: int

    def next_step(self, step: int, temp_c: float) -> int:
        """The highest step allowed from now on."""
        if temp_c >= self.passive_c:
            return max(0, step - 1)
        return min(self.top_step, step + 1) if temp_c < self.passive_c - self.hysteresis_c else step
