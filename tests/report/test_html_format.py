from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.report.html_format import duration, metric_value, metric_words, moment, number, percent, size
from chipwise.verify.thresholds import Thresholds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.03124, "0.0312"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (2480, "2,480"),
        (0, "0"),
        (-0.5, "-0.500"),
        (3.1e-9, "3.10 × 10⁻⁹"),
        (2.5e12, "2.50 × 10¹²"),
        (math.nan, "not a number"),
        (math.inf, "infinite"),
        (-math.inf, "-infinite"),
        (None, "–"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.0, "100 %"), (0.9999, "99.9 %"), (0.9413, "94.1 %"), (0.9, "90 %"), (0, "0 %"), (None, "–")],
)
def test_only_all_is_a_hundred_percent(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (95_000_000, "90.6 MiB"), (5 << 40, "5120 GiB"), (None, "–")],
)
def test_size(n_bytes: int | None, text: str) -> None:
    assert size(n_bytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.012, "12 ms"), (59.94, "59.9 s"), (61, "1 min 01 s")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_moment() -> None:
    assert moment("2026-01-02T03:04:05+00:00") == "2026-01-02 03:04 UTC"
    assert moment("long ago") == "long ago"


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("kl_mean_nats", 0.0312, "0.0312 nats"),
        ("top1_agreement", 0.9413, "94.1 %"),
        ("keyword_fidelity_drop", 0.12, "12 points"),
        ("perplexity_ratio", 1.0381, "1.038×"),
        ("cases_nonfinite", 3, "3"),
        ("kl_mean_nats", math.nan, "not a number"),
        ("one_of_tomorrow", 2.5, "2.50"),
    ],
)
def test_a_metric_carries_its_unit(metric: str, value: float, text: str) -> None:
    assert metric_value(metric, value) == text


def test_a_limit_is_shown_as_it_was_set() -> None:
    assert metric_value("kl_mean_nats", 0.1, limit=True) == "0.1 nats"


def test_every_threshold_has_words() -> None:
    for metric in Thresholds().to_dict():
        assert metric_words(metric).meaning, metric


@given(st.floats())
def test_any_number_is_written(value: float) -> None:
    assert number(value)
    assert percent(value)
