from __future__ import annotations

import pytest

from chipwise.quant.emulation_evidence import emulation_evidence, evidence_for
from chipwise.target import load_target


def test_every_figure_says_what_computed_it() -> None:
    figures = emulation_evidence()
    assert figures
    for figure in figures:
        assert load_target(figure.chip).chip.vendor == figure.vendor
        assert figure.source.startswith("rknn-toolkit2 ")
        assert -1 <= figure.emulated <= 1 or figure.measure == "kl_nats"


@pytest.mark.parametrize("name", ["rk3588", "rk3566"])
def test_figures_speak_for_all_chips_of_their_vendor(name: str) -> None:
    found = evidence_for(load_target(name), "w8a8")
    assert found
    assert {figure.scheme for figure in found} == {"w8a8"}


def test_nothing_is_claimed_for_other_vendors_and_schemes() -> None:
    assert evidence_for(load_target("ethos-u65"), "w8a8") == ()
    assert evidence_for(load_target("rk3588"), "w2a2") == ()
