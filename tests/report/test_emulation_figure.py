from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.report.caveats import caveats
from chipwise.report.emulation_figure import EmulationFigure
from chipwise.report.html import render_html
from chipwise.report.report import Report

FIGURE = EmulationFigure("V", "chip", "w8a8", "a net", "channel_cosine", 0.9991, 0.9982, "a simulator, 2026-11-30")
BARE = Report("t", "chip", "m", "w8a8", emulates="chip")


def test_optimism_is_positive_where_emulation_looked_better() -> None:
    assert FIGURE.optimism == pytest.approx(0.0009)
    assert replace(FIGURE, measure="kl_nats", emulated=0.01, simulated=0.03).optimism == pytest.approx(0.02)


def test_a_report_of_an_emulated_build_says_by_how_much() -> None:
    better = replace(FIGURE, model="another", emulated=0.99, simulated=0.995)
    report = replace(BARE, emulation=(better, FIGURE))
    said = " ".join(caveats(report))
    assert "by up to 0.0009 of a mean channel cosine (emulated 0.9991, simulated 0.9982: a net on chip" in said
    page = render_html(report)
    assert "How far to trust the emulation" in page
    assert ">+0.0009<" in page
    assert ">-0.0050<" in page
    assert "On no model measured in w8a8 did it look better" in " ".join(caveats(replace(BARE, emulation=(better,))))


def test_a_chip_that_had_no_simulator_beside_it() -> None:
    assert "was not measured: that was done for Rockchip's chips only" in " ".join(caveats(BARE))
    assert "How far to trust the emulation" not in render_html(BARE)


def test_the_figures_survive_json() -> None:
    report = replace(BARE, emulation=(FIGURE,))
    assert Report.from_json(report.to_json(), where="report.json") == report
