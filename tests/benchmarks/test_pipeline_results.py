from __future__ import annotations

from benchmarks.pipeline_results import PipelineResult, PipelineRound, pipeline


def test_the_section_names_the_slowest_stage_and_the_goal() -> None:
    rounds = (PipelineRound({"prepare": 50.0, "run": 10.0, "write": 900.0}, 8.0, 9.8, 0.5),)
    result = PipelineResult("2026-01-01", "a CPU", 2, "a net", "a JPEG", 60, rounds, 0.98, 1.225, 0.95, True)
    text = "\n".join(pipeline(result))
    assert "| 1 | 50.0 | 10.0 | 900.0 | 8.0 | 9.8 | 0.98 | 0.5 |" in text
    assert "runs at 0.98 of its slowest stage alone (goal 0.95: met) and at 1.23 times one thread" in text
