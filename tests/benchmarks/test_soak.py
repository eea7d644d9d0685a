"""What the soak says of its requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.soak import kind_of, other_texts, window
from benchmarks.soak_client import Call
from benchmarks.soak_results import Soak, SoakWindow, soak

CALLS = [
    Call("interactive", 1.0, 0.1, 0.5, "answered", 200, "on", asked="a"),
    Call("interactive", 2.0, 0.3, 0.9, "answered", 200, "off", asked="a"),
    Call("interactive", 9.0, None, 60.0, "lost", asked="b"),
    Call("background", 3.0, 0.2, 2.0, "answered", 200, "on", asked="a"),
]
FOUND = Soak(
    "2026-01-01", "cpu", (0.1, 0.2), 20, 1, "m", "--isolate", (kind_of("interactive", CALLS),), 3, 2, 60.0, 9, 5, 40,
    SoakWindow(30, 330, 600, 0.1, 0.50), SoakWindow(900, 1200, 600, 0.1, 0.54), 100 << 20, 101 << 20, 80 << 20, 0, 0,
)  # fmt: skip


def test_a_kind_and_a_window() -> None:
    one = kind_of("interactive", CALLS)
    assert (one.asked, one.endings, one.longest_s) == (3, {"answered": 2, "lost": 1}, 60.0)
    assert one.ttft_p50_s == pytest.approx(0.2)
    part = window(CALLS, 0.5, 5.0)
    assert (part.requests, part.whole_p95_s) == (2, pytest.approx(0.88))
    assert other_texts(CALLS) == 1


def test_the_goals_are_held_against_what_was_measured() -> None:
    page = "\n".join(soak(FOUND))
    assert page.count("| met |") == 3
    assert "**missed**" not in page
    assert "3 kills of the engine's process, 2 hangs (SIGSTOP), 9 steps with NaN" in page
    slower = replace(FOUND, last=replace(FOUND.last, whole_p95_s=0.56), lost=1, rss_last_bytes=110 << 20)
    assert "\n".join(soak(slower)).count("**missed**") == 3
