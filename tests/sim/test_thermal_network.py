from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.sim import load_spec
from chipwise.sim.spec import PLACES
from chipwise.sim.thermal_network import ThermalNetwork

NODES = load_spec("rk3588").nodes
POWERS = np.array([4.0, 2.0, 1.6, 0.0])


def euler(duration_s: float, air_c: float, steps: int) -> np.ndarray:
    """The same equations, written out part by part and integrated in small steps."""
    c = {place: NODES[place].joules_per_k.value for place in PLACES}
    g = {place: NODES[place].w_per_k for place in PLACES}
    temps, p, dt = dict.fromkeys(PLACES, air_c), dict(zip(PLACES, POWERS, strict=True)), duration_s / steps
    for _ in range(steps):
        out = {place: g[place] * (temps[place] - temps["package"]) for place in ("accelerator", "cpu")}
        down = g["package"] * (temps["package"] - temps["board"])
        lost = g["board"] * (temps["board"] - air_c)
        flows = {
            "accelerator": p["accelerator"] - out["accelerator"],
            "cpu": p["cpu"] - out["cpu"],
            "package": p["package"] + sum(out.values()) - down,
            "board": p["board"] + down - lost,
        }
        temps = {place: temps[place] + dt * flows[place] / c[place] for place in PLACES}
    return np.array([temps[place] for place in PLACES])


@pytest.mark.parametrize("duration_s", [1.0, 30.0])
def test_one_step_is_many_small_ones(duration_s: float) -> None:
    network = ThermalNetwork(NODES, 25.0)
    network.step(duration_s, POWERS, 25.0)
    assert network.temps_c == pytest.approx(euler(duration_s, 25.0, 20_000), abs=2e-3)


@given(st.floats(0.001, 5000), st.floats(0.001, 5000))
@settings(max_examples=30)
def test_steps_add_up(first_s: float, second_s: float) -> None:
    one, two = ThermalNetwork(NODES, 25.0), ThermalNetwork(NODES, 25.0)
    one.step(first_s + second_s, POWERS, 40.0)
    two.step(first_s, POWERS, 40.0)
    two.step(second_s, POWERS, 40.0)
    assert one.temps_c == pytest.approx(two.temps_c, abs=1e-6)


def test_all_power_leaves_to_the_air_in_the_end() -> None:
    network = ThermalNetwork(NODES, 25.0)
    steady = network.steady_c(POWERS, 25.0)
    assert (steady[PLACES.index("board")] - 25.0) * NODES["board"].w_per_k == pytest.approx(POWERS.sum())
    network.step(1e6, POWERS, 25.0)
    assert network.temps_c == pytest.approx(steady)
