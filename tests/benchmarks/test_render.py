from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import render
from benchmarks.results import save
from tests.benchmarks import planted, samples
from tests.benchmarks.test_results import KINDS


@pytest.fixture
def results(tmp_path: Path) -> Path:
    save(samples.decode_prefill(), tmp_path / "decode_prefill.json")
    save(samples.engine_drift(), tmp_path / "drift.json")
    save(samples.rockchip(), tmp_path / "rockchip.json")
    save(samples.rockchip_models(), tmp_path / "rockchip_models.json")
    save(samples.rockchip_emulation(), tmp_path / "rockchip_emulation.json")
    save(samples.rockchip_repair(), tmp_path / "rockchip_repair.json")
    save(samples.verify_time(), tmp_path / "verify_time.json")
    save(samples.serving(), tmp_path / "serving.json")
    save(samples.build_time(), tmp_path / "build_time.json")
    save(samples.telemetry_cost(), tmp_path / "telemetry_cost.json")
    save(samples.rehearsal(), tmp_path / "rehearsal.json")
    save(planted.planted_damage(), tmp_path / "planted_damage.json")
    save(samples.write_memory(), tmp_path / "write_memory.json")
    (tmp_path / "tried.md").write_text("## What was tried\n\nThis and that.\n")
    return tmp_path


def test_the_page_shows_rates_ratios_goals_and_what_is_missing(results: Path) -> None:
    page = render.render(results, results / "tried.md")
    assert "| chipwise | 384 (256-512) | 60 (40-80) | 85 MB | 0.40 | 200 MB | 0.50 s |" in page
    assert "| decode, against genai | **0.62** | 0.62 to 0.62 | at least 1.0 | missed by 38% |" in page
    assert "| memory, against genai | **1.00** |  | at most 1.1 | met |" in page
    assert "llama.cpp Q4_0 is not in the table: not installed." in page
    assert "| chipwise | 0.0260 nats | 92.5% | 1.025 |" in page
    row = "| rk3588 | w8a8 | -24 | 0.0100 nats | 99.0% | 2 of 200 operators | 5.3 MB | 12 s | 900 MB |"
    assert row in page
    assert "| 2 values in float16 | 0.9960 | 0.9970 | 1.20 MB | 2 values | yes |" in page
    assert "| algorithm mmse | failed | failed |  | 0 values |  |" in page
    assert "Asked for: 0.99 of both cosines, reached." in page
    assert "| read | 1.5 | 100 MB | a model |" in page
    assert "| chipwise | 100 ms | 1.20 | 1.29 | 1.30 | 2 | 1.00 |" in page
    assert "| tokens/s at 8 streams, over the peer's | **0.90** | at least 1.0 | missed |" in page
    assert "| shared prompt, second TTFT over first | **0.10** | at most 0.15 | met |" in page
    assert "goal: under 90 s, met" in page
    assert "| beside the reference, its answers kept | 5.0 (4.5-6.0) | 7.0 |" in page
    assert "| virtual rk3588 | 13 | 30 | 500 us | 0.050% |" in page
    assert "| with the policy | 78.0 °C | no | 0.0 h | 0 | 56 | 6 | 1000 | 70 s | 60 s |" in page
    assert "| emergency | 10 | 0 | 10 | 0.3 s | 0.5 s | 0.6 s | 1.8 s | 1.9 s |" in page
    assert "Time on each rung: as asked 90.0%, at most 2 at once 10.0%." in page
    assert "| fused | 500 MB | 150 MB | 0.30 | 0 MB |" in page
    assert "## Planted damage" in page
    assert page.endswith("This and that.\n")


def test_a_bundle_that_failed_its_gate_is_named(results: Path) -> None:
    assert "gate **failed" not in render.render(results)
    save(samples.decode_prefill(gate_passed=False), results / "decode_prefill.json")
    assert "The bundle's gate **failed**." in render.render(results)


def test_results_of_another_machine_stand_behind(results: Path) -> None:
    save(samples.serving(), results / "serving@intel-xeon.json")
    page = render.render(results, results / "tried.md")
    first, second = page.index("## Serving under load\n"), page.index("### Serving under load, Intel Xeon\n")
    assert first < second < page.index("## llamacpp_engine\n")
    assert page.count("| chipwise | 100 ms | 1.20 | 1.29 | 1.30 | 2 | 1.00 |") == 2


def test_what_was_not_run_is_said_to_be_not_run(tmp_path: Path) -> None:
    page = render.render(tmp_path, tmp_path / "none.md")
    assert page.count("Not run: `python -m benchmarks.") == len(KINDS)


def test_check_tells_an_old_page(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    page = results / "benchmarks.md"
    monkeypatch.setattr(render, "PAGE", page)
    monkeypatch.setattr(render, "ROOT", results)
    monkeypatch.setattr(sys, "argv", ["render", "--check"])
    assert render.main() == 1
    assert "out of date" in capsys.readouterr().out
    page.write_text(render.render(), "utf-8")
    assert render.main() == 0
