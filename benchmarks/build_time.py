"""How long does a build of SmolLM2 for this machine take, with verification on 100 queries?

    python -m benchmarks.build_time

Runs `chipwise build` as a user does, with the general queries that come with chipwise, and keeps the report's steps.
Writes results/build_time.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import bandwidth, facts, load_average, today
from benchmarks.model import RECIPE, build, smollm2
from benchmarks.results import RESULTS, BuildStep, BuildTime, save
from chipwise.report.report import Report

# Issue goal, on two cores.
GOAL_S = 90.0


def measure(gguf: Path, cases: int) -> BuildTime:
    """Build into a folder that is thrown away.

    Raises:
        subprocess.CalledProcessError: The build failed.
    """
    machine, load = facts(bandwidth()), load_average()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        out = build(gguf, Path(folder) / "bundle", cases=cases)
        wall_s = time.perf_counter() - start
        report = Report.from_json((out / "report.json").read_bytes(), where=str(out))
    steps = tuple(BuildStep(step.name, step.duration_s, step.peak_bytes, step.note) for step in report.steps)
    return BuildTime(
        date=today(),
        model=gguf.stem,
        machine=machine,
        recipe=RECIPE,
        cases=len(report.quality.cases) if report.quality else 0,
        load_average=load,
        gate_passed=report.outcome == "pass",
        steps=steps,
        total_s=sum(step.duration_s for step in steps),
        wall_s=wall_s,
        goal_s=GOAL_S,
        met=wall_s < GOAL_S,
    )


def main() -> int:
    """Run and save; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="Time of a build with verification, by step.")
    parser.add_argument("--cases", type=int, default=100, help="queries verified (100)")
    parser.add_argument("--out", type=Path, default=RESULTS / "build_time.json", help="where the result goes")
    arguments = parser.parse_args()
    try:
        result = measure(smollm2(), arguments.cases)
    except subprocess.CalledProcessError as e:
        print(f"error: the build ended with code {e.returncode}", file=sys.stderr)
        return 1
    save(result, arguments.out)
    word = "met" if result.met else "MISSED"
    print(
        f"{result.wall_s:.1f} s with start and end of the process, goal {GOAL_S:.0f} s: {word}; {arguments.out} written"
    )
    return 0 if result.met else 1


if __name__ == "__main__":
    sys.exit(main())
