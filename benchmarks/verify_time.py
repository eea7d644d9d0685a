"""How long does `chipwise verify` take for a hundred cases of the small model, with and without kept answers?

    python -m benchmarks.verify_time

Builds models/home_agent in float32 and in w4a16, and runs the command as a user does: each round without a reference,
beside one whose answers are not kept yet, and beside the same with its answers kept. Writes results/verify_time.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import bandwidth, facts, load_average, today
from benchmarks.model import RECIPE, ROOT
from benchmarks.results import RESULTS, save
from benchmarks.verify_results import VerifyRun, VerifyTime
from chipwise.report.report import Report
from chipwise.target.host.speed import CACHE_VARIABLE

# Issue goal, on two cores, reference answers kept.
GOAL_S = 30.0
_MODEL = ROOT / "models" / "home_agent"
_GATE_FAILED = 1


def _chipwise(cache: Path, *arguments: object) -> tuple[float, float]:
    """Run a command; seconds of the wall and of processors.

    Raises:
        subprocess.CalledProcessError: It ended with another code than 0 or 1.
    """
    before, start = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "chipwise.cli.main", *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, CACHE_VARIABLE: str(cache)}, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - start, os.times()
    if done.returncode > _GATE_FAILED:
        done.check_returncode()
    used_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, used_s


def measure(cases: int, rounds: int) -> VerifyTime:
    """Build both bundles into a folder that is thrown away, and verify one of them in rounds.

    Raises:
        subprocess.CalledProcessError: A command failed.
        RuntimeError: The report does not say that the reference's answers came from where they should.
    """
    machine, load = facts(bandwidth()), load_average()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = folder / "suite.jsonl"
        lines = (_MODEL / "suite.jsonl").read_text("utf-8").splitlines()[:cases]
        suite.write_text("\n".join(lines), "utf-8")
        for recipe in ("fp32", RECIPE):
            _chipwise(folder, "build", _MODEL, "--target", "host", "--recipe", recipe, "-o", folder / recipe)
        verify = ["verify", folder / RECIPE, "--suite", suite, "-o", folder / "out"]
        beside = [*verify, "--reference", folder / "fp32"]
        runs: dict[str, list[tuple[float, float]]] = {"alone": [], "computed": [], "kept": []}
        for i in range(rounds):
            runs["alone"].append(_chipwise(folder / "none", *verify))
            runs["computed"].append(_chipwise(folder / str(i), *beside))
            _require(folder, "computed, and kept")
            runs["kept"].append(_chipwise(folder / str(i), *beside))
            _require(folder, "from the cache")
        kept_bytes = sum(path.stat().st_size for path in (folder / "0").rglob("*.ref"))
    found = {way: _run(times) for way, times in runs.items()}
    return VerifyTime(
        today(), _MODEL.name, machine, RECIPE, len([json.loads(line) for line in lines]), load, rounds,
        found["alone"], found["computed"], found["kept"], kept_bytes, GOAL_S, found["kept"].wall_s < GOAL_S,
    )  # fmt: skip


def _require(folder: Path, said: str) -> None:
    path = folder / "out" / "report.json"
    answers = Report.from_json(path.read_bytes(), where=str(path)).provenance["reference answers"]
    if not answers.startswith(said):
        raise RuntimeError(f"reference answers were {answers!r}, not {said!r}")


def _run(times: Sequence[tuple[float, float]]) -> VerifyRun:
    walls = [wall for wall, _ in times]
    return VerifyRun(statistics.median(walls), min(walls), max(walls), statistics.median(used for _, used in times))


def main() -> int:
    """Run and save; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="Time of a verification, with and without kept answers.")
    parser.add_argument("--cases", type=int, default=100, help="cases verified (100)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--out", type=Path, default=RESULTS / "verify_time.json", help="where the result goes")
    arguments = parser.parse_args()
    result = measure(arguments.cases, arguments.rounds)
    save(result, arguments.out)
    print(
        f"alone {result.alone.wall_s:.1f} s, beside a reference {result.computed.wall_s:.1f} s, its answers kept "
        f"{result.kept.wall_s:.1f} s; goal {GOAL_S:.0f} s: {'met' if result.met else 'MISSED'}"
    )
    return 0 if result.met else 1


if __name__ == "__main__":
    sys.exit(main())
