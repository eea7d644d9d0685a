from __future__ import annotations

import pytest

from chipwise.errors import InputError
from chipwise.sim import board_names, load_spec
from chipwise.sim.spec import PLACES
from chipwise.target import load_target


def test_the_boards_there_are() -> None:
    assert board_names() == ("orin-nano", "rk3576", "rk3588")


@pytest.mark.parametrize("name", board_names())
def test_every_number_has_its_source_and_what_is_assumed_is_said(name: str) -> None:
    spec = load_spec(f"sim:{name}")
    assert set(spec.nodes) == set(PLACES)
    assert all(node.w_per_k > 0 for node in spec.nodes.values())
    assert set(spec.zones.values()) <= {*PLACES, "hottest"}
    assert "accelerator_w" in spec.assumed
    assert all(
        provenance.source for provenance in (spec.parameters.clocks_hz.provenance, spec.parameters.idle_w.provenance)
    )
    assert list(spec.parameters.clocks_hz.value) == sorted(spec.parameters.clocks_hz.value)
    assert spec.parameters.passive_c.value < spec.parameters.critical_c.value


@pytest.mark.parametrize(("name", "cores", "device"), [("rk3588", 3, "fdab0000.npu"), ("rk3576", 2, "27700000.npu")])
def test_what_the_catalogue_knows_comes_from_it(name: str, cores: int, device: str) -> None:
    spec = load_spec(name)
    assert (spec.cores, spec.device) == (cores, device)
    clock = load_target("rk3588").units[0].clock_hz
    assert clock is not None
    assert load_spec("rk3588").parameters.clocks_hz.value[-1] == clock.value


def test_unknown_board() -> None:
    with pytest.raises(InputError, match="no virtual board 'rk9'; known: sim:orin-nano, sim:rk3576, sim:rk3588"):
        load_spec("sim:rk9")
