from __future__ import annotations

import numpy as np
import pytest

from chipwise.quant.calibration import ValueRange, calibrate
from chipwise.quant.seen_ranges import SeenRanges
from tests.quant.small_graphs import linear

RNG = np.random.default_rng(4)
WEIGHT = RNG.normal(size=(16, 8))


def _samples(spread: float) -> list[dict[str, np.ndarray]]:
    return [{"x": (RNG.normal(size=(50, 16)) * spread).astype(np.float32)} for _ in range(3)]


@pytest.fixture(scope="module")
def seen() -> SeenRanges:
    model = linear(WEIGHT)
    ranges = calibrate(model, _samples(1), ["x", "y"])
    return SeenRanges(lambda: linear(WEIGHT), ranges, lambda sample: sample)


def test_the_same_domain_says_nothing(seen: SeenRanges) -> None:
    assert seen.findings(_samples(0.8), threads=1) == ()


def test_another_domain_is_a_warning(seen: SeenRanges) -> None:
    (found,) = seen.findings(_samples(8), threads=1)
    assert (found.rule, found.severity) == ("calibration_range", "warning")
    assert "2 of 2 values go beyond their calibrated range" in found.message
    assert found.where in ("x, y", "y, x")
    assert "--queries" in found.remedy


def test_nothing_to_compare_with(seen: SeenRanges) -> None:
    assert seen.findings([], threads=1) == ()


def test_samples_are_made_into_inputs() -> None:
    model = linear(WEIGHT)
    made = SeenRanges(lambda: model, {"x": ValueRange(-1, 1)}, lambda n: {"x": np.full((1, 16), n, np.float32)})
    assert [one.name for one in made.excess([0.5, 3.0], threads=1)] == ["x"]
    assert made.excess([0.5, -1.0], threads=1) == []
