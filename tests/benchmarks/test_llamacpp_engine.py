"""The engine llama.cpp beside llama.cpp's server: the form of the result, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.llamacpp_engine_results import EngineBesideServer, EngineRates, llamacpp_engine
from benchmarks.results import load, save
from tests.benchmarks import samples

OURS = EngineRates("ours", "ours", {1: (10.0, 30.0), 8: (5.0, 6.0)}, {1: (90.0, 110.0), 8: (150.0, 151.0)}, (7.0, 9.5))
THEIRS = EngineRates(
    "theirs", "theirs", {1: (20.0, 22.0), 8: (9.0, 9.0)}, {1: (99.0, 99.0), 8: (200.0, 180.0)}, (8.0, 8.0)
)
RESULT = EngineBesideServer("2026-11-30", "Tiny", samples.decode_prefill().machine, "build 1", 1, 8.0, (OURS, THEIRS))


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    save(RESULT, tmp_path / "r.json")
    assert load(EngineBesideServer, tmp_path / "r.json") == RESULT


def test_the_page_shows_cpu_time_before_the_clock() -> None:
    page = "\n".join(llamacpp_engine(RESULT))
    assert "| server | 1 streams | 8 streams |\n|---|---|---|\n" in page
    assert "| ours | 100 (90-110), 20/s | 150 (150-151), 6/s |" in page
    assert "| theirs | 99 (99-99), 21/s | 190 (180-200), 9/s |" in page
    assert "a load average of 7.0 to 9.5" in page
