"""What does an engine in a process of its own cost, in tokens a second?

    python -m benchmarks.isolation BUNDLE... [--threads N] [--rounds N]

Each bundle is opened twice, in this process and in one of its own, and both decode in turns, a step of one and a step
of the other, so that both meet the machine as it is. Their logits are compared to the bit. Writes
results/isolation.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.isolation_results import IsolationCost, IsolationRow
from benchmarks.machine import load_average, today
from benchmarks.results import RESULTS, save
from chipwise.bundle import open_bundle
from chipwise.engine import Batch, Session
from chipwise.engine.isolated import Isolation
from chipwise.target.host.machine import look

STEPS, WARM_UP = 60, 5
ROWS = (1, 4)
CONTEXT = 512
# A step of this process must not wait for threads of the other one that look for work in a loop.
OPTIONS = {"yields": True}


def measure(path: Path, threads: int, rounds: int) -> list[IsolationRow]:
    """Decode steps of one bundle, at each number of rows, in rounds."""
    bundle = open_bundle(path)
    here = bundle.open_session(max(ROWS), CONTEXT, threads=threads, options=OPTIONS)
    started_s = time.perf_counter()
    there = bundle.open_session(max(ROWS), CONTEXT, threads=threads, options=OPTIONS, isolation=Isolation())
    open_s = time.perf_counter() - started_s
    found = []
    for rows in ROWS:
        here_s, there_s = [], []
        for number in range(rounds):
            ours, theirs = _round(here, there, rows, number)
            here_s.append(ours)
            there_s.append(theirs)
        ratios = [ours / theirs for ours, theirs in zip(here_s, there_s, strict=True)]
        medians = (rows / statistics.median(times) for times in (here_s, there_s))
        found.append(IsolationRow(bundle.manifest.name, here.vocab_size, rows, *medians,
                                  statistics.median(ratios), min(ratios), max(ratios), open_s))  # fmt: skip
    there.close()
    here.close()
    return found


def _round(here: Session, there: Session, rows: int, number: int) -> tuple[float, float]:
    """The median step of either, in seconds."""
    chance = np.random.default_rng(number)
    times: dict[Session, list[float]] = {here: [], there: []}
    for past in range(WARM_UP + STEPS):
        batch = Batch(0, chance.integers(0, here.vocab_size, (rows, 1)), np.full(rows, past))
        logits = []
        # Who goes first changes: the second finds the processor's caches cold.
        for session in (here, there) if past % 2 else (there, here):
            before_s = time.perf_counter()
            logits.append(session.step(batch).logits)
            times[session].append(time.perf_counter() - before_s)
        if not np.array_equal(*logits):
            raise RuntimeError("the two processes compute different logits")
    ours, theirs = (statistics.median(times[session][WARM_UP:]) for session in (here, there))
    return ours, theirs


def main() -> int:
    """Run and save."""
    parser = argparse.ArgumentParser(description="Decode steps in this process beside those in another one.")
    parser.add_argument("bundles", type=Path, nargs="+", help="bundles of decoders")
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine")
    parser.add_argument("--rounds", type=int, default=5, help=f"rounds of {STEPS} steps")
    parser.add_argument("--out", type=Path, default=RESULTS / "isolation.json", help="where the result goes")
    arguments = parser.parse_args()
    busy = load_average()
    rows = tuple(row for path in arguments.bundles for row in measure(path, arguments.threads, arguments.rounds))
    result = IsolationCost(today(), look().cpu.model, look().threads, arguments.threads, STEPS, arguments.rounds, busy,
                           rows)  # fmt: skip
    save(result, arguments.out)
    for row in rows:
        spread = f"{row.ratio:.3f} ({row.lowest:.3f} to {row.highest:.3f})"
        print(f"{row.bundle}, {row.rows} rows: {row.there_per_s:.1f} tokens/s, {spread} of this process's")
    print(f"{arguments.out} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
