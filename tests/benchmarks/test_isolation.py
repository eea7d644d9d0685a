from __future__ import annotations

from benchmarks.isolation_results import IsolationCost, IsolationRow, isolation


def test_the_section_shows_the_ratio_and_its_spread() -> None:
    row = IsolationRow("home", 4096, 4, 400.0, 390.0, 0.975, 0.95, 0.99, 1.25)
    page = "\n".join(isolation(IsolationCost("2026-11-30", "Some CPU", 2, 1, 60, 5, 0.5, (row,))))
    assert "| home | 4096 | 4 | 400.0 | 390.0 | 0.975 (0.950-0.990) | 1.2 s |" in page
    assert "5 rounds of 60 steps" in page
