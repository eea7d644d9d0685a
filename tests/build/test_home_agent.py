"""The model of the repository, built for the chips most users hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.build import BuildOptions, build
from chipwise.bundle import open_bundle

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parents[2] / "models" / "home_agent"


@pytest.mark.parametrize(("target", "recipe"), [("rk3588", "w8a8"), ("rk3576", "w4a16_g32"), ("host", "w8a8")])
def test_it_is_built_measured_and_served(target: str, recipe: str, tmp_path: Path) -> None:
    options = BuildOptions(
        str(MODEL), target, tmp_path / "b", recipe, queries=MODEL / "queries.jsonl", suite=MODEL / "suite.jsonl",
        max_cases=12, threads=1,
    )  # fmt: skip
    result = build(options)
    assert result.report.quality is not None
    drift = result.report.quality.answer
    assert drift is not None
    # Without outliers a small model survives 8 bits; what it answers is its own affair.
    assert drift.top1_agreement > 0.9
    assert drift.kl_mean_nats < 0.1
    context = open_bundle(result.bundle).manifest.model.config["max_positions"]
    session = open_bundle(result.bundle).open_session(1, context)
    session.close()
    says = {item.what for item in result.report.not_run}
    assert (f"compile for {target}" in says) == (target != "host")
