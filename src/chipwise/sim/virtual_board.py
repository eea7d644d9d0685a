"""VirtualBoard: a board that exists as a model only: heat, clocks, load and memory over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from chipwise.sim.governor import StepWise
from chipwise.sim.spec import PLACES, BoardSpec
from chipwise.sim.thermal_network import ThermalNetwork


@dataclass(frozen=True)
class Activity:
    """What a board does.

    Attributes:
        accelerator: Load of the NPU or GPU, 0 to 1.
        cpu: Load of the CPU, 0 to 1.
    """

    accelerator: float = 0.0
    cpu: float = 0.0


IDLE = Activity()


class VirtualBoard:
    """The model of a board. Time passes only through ``advance``; not for several threads at once.

    Heat is stepped once a governor's period, with the mean power over it. The accelerator's dynamic power goes with
    clock and the square of voltage; leakage that grows with heat is part of the idle power and constant.

    Args:
        spec: What it is made of.
        air_c: Temperature of the air around it, which is also where it begins.
    """

    def __init__(self, spec: BoardSpec, air_c: float = 25.0) -> None:
        numbers = spec.parameters
        self.spec = spec
        self.air_c = air_c
        """Temperature of the air; may be changed at any time."""
        self.clocks_hz = numbers.clocks_hz.value
        self._period_s = numbers.governor_s.value
        self._governor = StepWise(numbers.passive_c.value, numbers.hysteresis_c.value, len(self.clocks_hz) - 1)
        self._network = ThermalNetwork(spec.nodes, air_c)
        self._powers_w = np.zeros(len(PLACES))
        self._power_ratios = [self._power_ratio(hz) for hz in self.clocks_hz]
        self._governed_step = self._cap_step = len(self.clocks_hz) - 1
        self._elapsed_s = self._busy_s = self._busy_cpu_s = self._energy_j = 0.0
        self.now_s = 0.0
        self.accelerator_load = 0.0
        """Load of the accelerator, the mean over the last whole period."""
        self.cpu_load = 0.0
        """Load of the CPU, likewise."""
        self.power_w = numbers.idle_w.value
        """What the board drew, likewise."""
        self.used_bytes = 1 << 30
        """Memory in use."""
        self.peak_c = air_c
        """The hottest that any part has been."""
        self.throttled_s = 0.0
        """How long the kernel has held the clock down."""
        self.shut_down = False
        """Whether the critical temperature switched it off; it stays off."""

    @property
    def temps_c(self) -> dict[str, float]:
        """Temperature by sensor."""
        parts = dict(zip(PLACES, self._network.temps_c.tolist(), strict=True))
        return {zone: self.hottest_c if place == "hottest" else parts[place] for zone, place in self.spec.zones.items()}

    @property
    def hottest_c(self) -> float:
        """The hottest part."""
        return float(self._network.temps_c.max())

    @property
    def clock_hz(self) -> float:
        """The accelerator's clock."""
        return self.clocks_hz[min(self._governed_step, self._cap_step)]

    @property
    def clock_ratio(self) -> float:
        """Clock over the highest."""
        return self.clock_hz / self.clocks_hz[-1]

    @property
    def cap_hz(self) -> float:
        """The clock that the user allows at most."""
        return self.clocks_hz[self._cap_step]

    def cap_clock(self, hz: float | None) -> None:
        """Allow the highest clock of the table that is not above ``hz``, the lowest if all are; None allows all."""
        step = len(self.clocks_hz) if hz is None or hz <= 0 else bisect_right(self.clocks_hz, hz)
        self._cap_step = max(0, step - 1)

    def advance(self, duration_s: float, activity: Activity = IDLE) -> None:
        """Let time pass with the same activity."""
        self.now_s += duration_s
        left_s = duration_s
        while left_s > 0:
            part_s = min(left_s, self._period_s - self._elapsed_s)
            self._spend(part_s, activity)
            left_s -= part_s
            # Sums of many small parts may miss the period by rounding.
            if self._elapsed_s >= self._period_s * (1 - 1e-9):
                self._end_period()

    def _spend(self, duration_s: float, activity: Activity) -> None:
        ratio = self._power_ratios[min(self._governed_step, self._cap_step)]
        self._elapsed_s += duration_s
        self._busy_s += duration_s * activity.accelerator
        self._busy_cpu_s += duration_s * activity.cpu
        self._energy_j += duration_s * activity.accelerator * ratio * self.spec.parameters.accelerator_w.value

    def _end_period(self) -> None:
        numbers, powers = self.spec.parameters, self._powers_w
        if self.shut_down:
            powers[:] = 0.0
            self.accelerator_load = self.cpu_load = 0.0
        else:
            self.accelerator_load = self._busy_s / self._elapsed_s
            self.cpu_load = self._busy_cpu_s / self._elapsed_s
            powers[0] = self._energy_j / self._elapsed_s
            powers[1] = self.cpu_load * numbers.cpu_w.value
            powers[2] = numbers.idle_w.value
        self.power_w = float(powers.sum())
        self._network.step(self._elapsed_s, powers, self.air_c)
        hottest_c = self.hottest_c
        self.peak_c = max(self.peak_c, hottest_c)
        self.shut_down = self.shut_down or hottest_c >= numbers.critical_c.value
        if self._governed_step < len(self.clocks_hz) - 1:
            self.throttled_s += self._elapsed_s
        self._governed_step = self._governor.next_step(self._governed_step, hottest_c)
        self._elapsed_s = self._busy_s = self._busy_cpu_s = self._energy_j = 0.0

    def _power_ratio(self, hz: float) -> float:
        """Dynamic power at a clock over that at the highest: f V^2, V linear in f."""
        lowest, highest = self.clocks_hz[0], self.clocks_hz[-1]
        floor = self.spec.parameters.lowest_volts_ratio.value
        share = (hz - lowest) / (highest - lowest) if highest > lowest else 1.0
        return hz / highest * (floor + (1 - floor) * share) ** 2
