"""EmulationFigure: what emulation read of a model where a vendor's own simulator was at hand to say what is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Measure = Literal["channel_cosine", "kl_nats"]


@dataclass(frozen=True)
class EmulationFigure:
    """One model, computed both ways from the same graph, calibration and inputs.

    Attributes:
        vendor: Whose chip, e.g. ``Rockchip``.
        chip: The chip.
        scheme: Bits of weights and activations, e.g. ``w8a8``.
        model: The model.
        measure: ``channel_cosine`` (mean over the channels of the worst output, against float32) or ``kl_nats``.
        emulated: What emulation read.
        simulated: What the simulator read.
        source: The simulator and the date.
    """

    vendor: str
    chip: str
    scheme: str
    model: str
    measure: Measure
    emulated: float
    simulated: float
    source: str

    @property
    def optimism(self) -> float:
        """By how much emulation looked better than the simulator, in the measure's unit; below 0 if it looked worse."""
        difference = self.emulated - self.simulated
        return difference if self.measure == "channel_cosine" else -difference
