"""ThermalNetwork: temperatures of a few parts that pass heat to each other and to the air, stepped exactly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from chipwise.sim.spec import PLACES, Node, Place

# Propagators kept: a board is stepped by the same interval again and again.
_MOST_KEPT = 64


class ThermalNetwork:
    """Resistances and capacities: ``C dT/dt = P - G (T - T_air)``.

    With constant power over a step the solution is ``T = S + exp(-C^-1 G dt) (T - S)``, S being the steady state; no
    step size makes it unstable. The exponential is taken through the eigenvectors of the symmetric
    ``C^-1/2 G C^-1/2``.
    """

    def __init__(self, nodes: Mapping[Place, Node], air_c: float) -> None:
        n = len(PLACES)
        capacity = np.array([nodes[place].joules_per_k.value for place in PLACES])
        self._conductance = np.zeros((n, n))
        package, board = PLACES.index("package"), PLACES.index("board")
        for i, place in enumerate(PLACES):
            w_per_k = nodes[place].w_per_k
            self._conductance[i, i] += w_per_k
            if place != "board":
                out = board if place == "package" else package
                self._conductance[out, out] += w_per_k
                self._conductance[i, out] -= w_per_k
                self._conductance[out, i] -= w_per_k
        self._inverse = np.linalg.inv(self._conductance)
        self._root = np.sqrt(capacity)
        self._rates, self._vectors = np.linalg.eigh(self._conductance / np.outer(self._root, self._root))
        self._kept: dict[float, npt.NDArray[np.float64]] = {}
        self.temps_c: npt.NDArray[np.float64] = np.full(n, air_c)
        """Temperatures in the order of ``PLACES``."""

    def steady_c(self, powers_w: npt.NDArray[np.float64], air_c: float) -> npt.NDArray[np.float64]:
        """Where the temperatures end under constant power."""
        steady: npt.NDArray[np.float64] = self._inverse @ powers_w + air_c
        return steady

    def step(self, duration_s: float, powers_w: npt.NDArray[np.float64], air_c: float) -> None:
        """Let time pass under constant power, in the order of ``PLACES``."""
        steady = self.steady_c(powers_w, air_c)
        self.temps_c = steady + self._propagator(duration_s) @ (self.temps_c - steady)

    def _propagator(self, duration_s: float) -> npt.NDArray[np.float64]:
        found = self._kept.get(duration_s)
        if found is None:
            decay = (self._vectors * np.exp(-self._rates * duration_s)) @ self._vectors.T
            found = decay * np.outer(1 / self._root, self._root)
            if len(self._kept) < _MOST_KEPT:
                self._kept[duration_s] = found
        return found
