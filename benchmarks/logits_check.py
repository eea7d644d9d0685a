"""What does the check for numeric faults cost, as a share of a decode step?

    python -m benchmarks.logits_check BUNDLE...

Every second step is followed by the check of what it returned, the others by a look for the likeliest tokens alone,
which a choice needs anyway: what the first takes longer is the check's cost. Both meet the caches as a step leaves
them. Writes results/logits_check.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.logits_check_results import CheckRow, LogitsCheckCost
from benchmarks.machine import load_average, today
from benchmarks.results import RESULTS, save
from chipwise.bundle import open_bundle
from chipwise.engine import Batch
from chipwise.serve.faults.logits_check import check_logits
from chipwise.target.host.machine import look

STEPS, WARM_UP, THREADS = 1000, 20, 1
ROWS = (1, 4, 8)
CONTEXT = 256
GOAL = 0.01


def measure(path: Path) -> list[CheckRow]:
    """Decode steps of one bundle, at each number of rows."""
    bundle, chance = open_bundle(path), np.random.default_rng(0)
    session = bundle.open_session(max(ROWS), CONTEXT, threads=THREADS, self_test=False)
    found = []
    for rows in ROWS:
        steps, checks, choices = [], [], []
        for number in range(WARM_UP + STEPS):
            tokens = chance.integers(0, session.vocab_size, (rows, 1))
            before_s = time.perf_counter()
            logits = session.step(Batch(0, tokens, np.full(rows, number // 2 % CONTEXT))).logits
            between_s = time.perf_counter()
            if number % 2:
                likeliest(logits)
                choices.append(time.perf_counter() - between_s)
            else:
                _, faults = check_logits(logits)
                checks.append(time.perf_counter() - between_s)
                if faults:
                    raise RuntimeError(f"{path} computes no logits")
            steps.append(between_s - before_s)
        step_s, choice_s, both_s = (statistics.median(times[WARM_UP // 2 :]) for times in (steps, choices, checks))
        check_s = both_s - choice_s
        name, vocab = bundle.manifest.name, session.vocab_size
        found.append(CheckRow(name, vocab, rows, step_s, choice_s, both_s, check_s, check_s / step_s))
    session.close()
    return found


def likeliest(logits: npt.NDArray[np.float32]) -> list[int]:
    """What a choice needs anyway, for all rows in one call."""
    found: list[int] = logits.argmax(1).tolist()
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
        times = f"{row.step_s * 1e3:.2f} ms a step, {row.check_s * 1e6:.1f} us a check beside {row.choice_s * 1e6:.1f}"
        print(f"{row.bundle}, {row.rows} rows: {times}, {row.share:.2%}")
    print(f"goal under {GOAL:.0%}: {'met' if met else 'MISSED'}; {arguments.out} written")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
