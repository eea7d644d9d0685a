"""FrozenWatch: tells sensors that are stuck from a board that is calm."""

from __future__ import annotations

from chipwise.telemetry import HardwareState, Reading

# A load that moved by this much must have moved some sensor of a chip.
_MOVED = 0.3


class FrozenWatch:
    """Watches whether any temperature moves while the load does.

    A driver that hangs may repeat its last value for ever, and a board that looks calm is then never cooled. One sensor
    that stands still is no matter, as the hottest of all counts.

    Args:
        patience_s: How long all temperatures may stand still while the load moves.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._temps: tuple[float, ...] = ()
        self._since_s = 0.0
        self._lowest, self._highest = 1.0, 0.0

    def frozen_s(self, state: HardwareState) -> float | None:
        """For how long the sensors have been stuck; None if they are not, or that cannot be told."""
        temps = tuple(r.value for r in (state.temp_c, *state.details) if r.unit == "C" and r.value is not None)
        if temps != self._temps:
            self._temps, self._since_s = temps, state.at_s
            self._lowest, self._highest = 1.0, 0.0
        load = _load(state.npu_load, state.gpu_load)
        if load is not None:
            self._lowest, self._highest = min(self._lowest, load), max(self._highest, load)
        still_s = state.at_s - self._since_s
        moved = self._highest - self._lowest >= _MOVED
        return still_s if temps and moved and still_s >= self._patience_s else None


def _load(*readings: Reading) -> float | None:
    return max((r.value for r in readings if r.value is not None), default=None)
