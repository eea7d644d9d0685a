"""Do days of mixed load on a hot board keep the trip and the emergencies' budget, and how fast is that known?

    python -m benchmarks.rehearsal [--hours 72]

The scheduler, meters, policy and clock control that serve, on a virtual RK3588 and a null engine, in virtual time; once
with the policy, once with the kernel's governor alone. Writes results/rehearsal.json.
"""

from __future__ import annotations

import argparse
import bisect
import logging
import sys
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.board_results import RehearsalResult, RehearsalRun, Served
from benchmarks.machine import load_average, today
from benchmarks.rehearsal_load import DAY_S, air_c
from benchmarks.rehearsal_run import PLACES, Rehearsal, Tally, percentile
from benchmarks.results import RESULTS, save
from chipwise.serve.hardware.rung import ladder
from chipwise.serve.request.priority import Priority
from chipwise.target.host.machine import look

BOARD = "rk3588"
SEED = 20261130
# What an emergency's answer of 8 tokens may take, from its arrival to its last token.
BUDGET_S = 3.0
# Issue goal.
GOAL_S = 120.0


def rehearse(board: str, hours: float, seed: int, *, with_policy: bool, start_s: float = 0.0) -> RehearsalRun:
    """One run, from a time of the day on."""
    wall_s, cpu_s = time.monotonic(), time.process_time()
    run = Rehearsal(board, seed=seed, with_policy=with_policy, start_s=start_s)
    run.run(hours * 3600)
    emergencies = run.tallies[Priority.EMERGENCY]
    late = sum(whole_s > BUDGET_S for whole_s in emergencies.whole_s)
    total_s = sum(run.level_s.values()) or 1.0
    # The names of the rungs are those of the ladder that the run built.
    names = [rung.name for rung in ladder(PLACES, run.clock_ratios)]
    return RehearsalRun(
        policy=with_policy,
        peak_c=run.board.peak_c,
        kernel_throttled_s=run.board.throttled_s,
        shut_down=run.board.shut_down,
        late_emergencies=late + emergencies.asked - len(emergencies.whole_s),
        changes=len(run.changed_s),
        most_changes_an_hour=most_in_an_hour(run.changed_s),
        least_distance_s=min((b - a for a, b in pairwise(run.changed_s)), default=None),
        level_share={names[level]: run.level_s[level] / total_s for level in sorted(run.level_s)},
        busy_share=run.busy_s / run.board.now_s,
        steps=run.steps,
        samples=run.samples,
        wall_s=time.monotonic() - wall_s,
        cpu_s=time.process_time() - cpu_s,
        served=tuple(served(priority, tally) for priority, tally in run.tallies.items()),
    )


def most_in_an_hour(times_s: list[float]) -> int:
    """The most changes within any hour."""
    return max((bisect.bisect_right(times_s, at + 3600) - i for i, at in enumerate(times_s)), default=0)


def served(priority: Priority, tally: Tally) -> Served:
    """What became of one priority."""
    first, whole = tally.first_s, tally.whole_s
    return Served(
        priority.label, tally.asked, tally.refused, len(whole), percentile(first, 0.5), percentile(first, 0.95),
        percentile(first, 1.0), percentile(whole, 0.95), percentile(whole, 1.0),
    )  # fmt: skip


def judge(hours: float) -> RehearsalResult:
    """Both runs and whether the goals are met."""
    busy = load_average()
    runs = tuple(rehearse(BOARD, hours, SEED, with_policy=with_policy) for with_policy in (True, False))
    first = runs[0]
    spec = Rehearsal(BOARD, seed=0, with_policy=True).board.spec
    trip_c = spec.parameters.passive_c.value
    air = [air_c(hour * DAY_S / 24) for hour in range(24)]
    kept = first.peak_c <= trip_c and first.late_emergencies == 0 and not first.shut_down
    return RehearsalResult(
        date=today(),
        cpu=look().cpu.model,
        load_average=busy,
        board=BOARD,
        assumed=spec.assumed,
        hours=hours,
        seed=SEED,
        air_c=(min(air), max(air)),
        trip_c=trip_c,
        budget_s=BUDGET_S,
        runs=runs,
        goal_s=GOAL_S,
        met=kept and first.wall_s < GOAL_S,
    )


def main() -> int:
    """Run and save; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="Mixed load on a virtual board, in virtual time.")
    parser.add_argument("--hours", type=float, default=72.0, help="hours of virtual time")
    parser.add_argument("--out", type=Path, default=RESULTS / "rehearsal.json", help="where the result goes")
    arguments = parser.parse_args()
    # Every change of the policy is a warning to a server's log.
    logging.disable(logging.WARNING)
    result = judge(arguments.hours)
    save(result, arguments.out)
    for run in result.runs:
        print(
            f"{'policy' if run.policy else 'kernel'}: {run.peak_c:.1f} degrees at most, kernel throttled "
            f"{run.kernel_throttled_s:.0f} s, {run.late_emergencies} emergencies late, {run.changes} changes "
            f"({run.most_changes_an_hour} in the worst hour), {run.wall_s:.1f} s wall, {run.cpu_s:.1f} s CPU"
        )
    print(f"goals {'met' if result.met else 'MISSED'}; {arguments.out} written")
    return 0 if result.met else 1


if __name__ == "__main__":
    sys.exit(main())
