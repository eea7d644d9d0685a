"""What does watching a board cost, as a share of a core?

    python -m benchmarks.telemetry_cost

Reads the files of each virtual board through a real folder with time limits, as on a board, and of this machine.
Counted is the process's CPU time, all threads. Writes results/telemetry_cost.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.board_results import TelemetryCost, TelemetryRow
from benchmarks.machine import load_average, today
from benchmarks.results import RESULTS, save
from chipwise.sim import Activity, FolderBoard, VirtualBoard, board_names, load_spec
from chipwise.target.host.machine import look
from chipwise.telemetry import BoardMeters, FolderFiles, Tree

ROUNDS, SAMPLES, WARM_UP = 5, 400, 50
# Issue goal.
GOAL = 0.005


class CountingTree(Tree):
    """Counts the files of a sample."""

    files = 0

    def read(self, paths):
        """Read, and count."""
        texts = super().read(paths)
        self.files = len(texts)
        return texts


def measure(name: str, root: Path) -> TelemetryRow:
    """Samples of one folder."""
    tree = CountingTree(FolderFiles(root))
    meters = BoardMeters(tree)
    rounds = []
    for _ in range(ROUNDS):
        for _ in range(WARM_UP):
            meters.read(0.0)
        started_s = time.process_time()
        for _ in range(SAMPLES):
            state = meters.read(0.0)
        rounds.append((time.process_time() - started_s) / SAMPLES)
    known = sum(reading.value is not None for reading in (*state.summary, *state.details))
    cpu_s = statistics.median(rounds)
    return TelemetryRow(name, tree.files, known, cpu_s, cpu_s / 1.0)


def main() -> int:
    """Run and save; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="CPU time of reading a board's state.")
    parser.add_argument("--out", type=Path, default=RESULTS / "telemetry_cost.json", help="where the result goes")
    arguments = parser.parse_args()
    busy = load_average()
    rows = []
    for name in board_names():
        with tempfile.TemporaryDirectory() as folder:
            board = FolderBoard(VirtualBoard(load_spec(name), 40.0), Path(folder))
            board.advance(60, Activity(0.7, 0.2))
            rows.append(measure(f"virtual {name}", Path(folder)))
    rows.append(measure("this machine", Path("/")))
    met = all(row.core_share < GOAL for row in rows)
    save(TelemetryCost(today(), look().cpu.model, ROUNDS * SAMPLES, busy, tuple(rows), GOAL, met), arguments.out)
    for row in rows:
        print(f"{row.board}: {row.files} files, {row.cpu_s * 1e6:.0f} us a sample, {row.core_share:.3%} of a core")
    print(f"goal under {GOAL:.1%}: {'met' if met else 'MISSED'}; {arguments.out} written")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
