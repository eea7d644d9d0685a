"""What does the check for numeric faults cost, as a share of a decode step?

    python -m benchmarks.logits_check BUNDLE...

Each step is followed by the check of what it returned, as in serving, so both meet the caches as they are. Writes
results/logits_check.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.logits_check_results import CheckRow, LogitsCheckCost
from benchmarks.machine import load_average, today
from benchmarks.results import RESULTS, save
from chipwise.bundle import open_bundle
from chipwise.engine import Batch
from chipwise.serve.logits_check import faulty_rows
from chipwise.target.host.machine import look

STEPS, WARM_UP, THREADS = 100, 10, 1
ROWS = (1, 4)
CONTEXT = WARM_UP + STEPS + 32
GOAL = 0.01


def measure(path: Path) -> list[CheckRow]:
    """Decode steps of one bundle, at each number of rows."""
    bundle, chance = open_bundle(path), np.random.default_rng(0)
    session = bundle.open_session(max(ROWS), max(CONTEXT, 256), threads=THREADS, self_test=False)
    found = []
    for rows in ROWS:
        steps, checks = [], []
        for past in range(WARM_UP + STEPS):
            tokens = chance.integers(0, session.vocab_size, (rows, 1))
            before_s = time.perf_counter()
            logits = session.step(Batch(0, tokens, np.full(rows, past))).logits
            between_s = time.perf_counter()
            if faulty_rows(logits):
                raise RuntimeError(f"{path} computes no logits")
            checks.append(time.perf_counter() - between_s)
            steps.append(between_s - before_s)
        step_s, check_s = (statistics.median(times[WARM_UP:]) for times in (steps, checks))
        found.append(CheckRow(bundle.manifest.name, session.vocab_size, rows, step_s, check_s, check_s / step_s))
    session.close()
    return found


def main() -> int:
    """Run and save; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="Time of looking for numeric faults beside decode steps.")
    parser.add_argument("bundles", type=Path, nargs="+", help="bundles of decoders")
    parser.add_argument("--out", type=Path, default=RESULTS / "logits_check.json", help="where the result goes")
    arguments = parser.parse_args()
    busy = load_average()
    rows = tuple(row for path in arguments.bundles for row in measure(path))
    met = all(row.share < GOAL for row in rows)
    save(LogitsCheckCost(today(), look().cpu.model, THREADS, STEPS, busy, rows, GOAL, met), arguments.out)
    for row in rows:
        times = f"{row.step_s * 1e3:.2f} ms a step, {row.check_s * 1e6:.1f} us a check"
        print(f"{row.bundle}, {row.rows} rows: {times}, {row.share:.2%}")
    print(f"goal under {GOAL:.0%}: {'met' if met else 'MISSED'}; {arguments.out} written")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
