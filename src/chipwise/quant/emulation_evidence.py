"""Emulation evidence: how far emulated arithmetic was from a vendor's simulator, as measured and kept as data.

``benchmarks/rockchip_emulation.py`` measures it and writes the file beside this one; docs/benchmarks.md shows it.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import tomllib
from pydantic import TypeAdapter

from chipwise.report.emulation_figure import EmulationFigure
from chipwise.target import Target

FILE = "emulation_evidence.toml"


@cache
def emulation_evidence() -> tuple[EmulationFigure, ...]:
    """Every comparison that was made."""
    text = resources.files("chipwise.quant").joinpath(FILE).read_text("utf-8")
    return tuple(TypeAdapter(list[EmulationFigure]).validate_python(tomllib.loads(text)["figures"]))


def evidence_for(target: Target, scheme: str) -> tuple[EmulationFigure, ...]:
    """Those of a target's vendor in a scheme, e.g. ``w8a8``; none where its simulator was never at hand."""
    return tuple(
        figure for figure in emulation_evidence() if (figure.vendor, figure.scheme) == (target.chip.vendor, scheme)
    )
