from __future__ import annotations

from benchmarks.exchange_results import ExchangeCost, ExchangeRow, Waits, exchange


def test_the_section_has_a_line_a_server_with_all_of_it() -> None:
    quiet, busy = Waits(10, 0.010, 0.0204, 0.5), Waits(9, 0.020, 0.0306, 1.25)
    row = ExchangeRow("a", "b", True, 8, 0.75, 0.925, quiet, busy, 100, 0, 3 << 20, 4 << 20, 6 << 20)
    lines = exchange(ExchangeCost("2026-11-30", "a CPU", 2, 1, 2, 0.5, (row,)))
    (header,) = [line for line in lines if line.startswith("| bundles")]
    (found,) = [line for line in lines if line.startswith("| a, b")]
    assert found == (
        "| a, b | isolated | 8 | 0.75 s | 0.93 s | 10 | 10 ms | 20 ms | 500 ms | 9 | 20 ms | 31 ms | 1250 ms | 1.50 "
        "| 100 | 0 | 3 MiB | 4 MiB | 6 MiB |"
    )
    assert header.count("|") == found.count("|") == lines[lines.index(header) + 1].count("|")
