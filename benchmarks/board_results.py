"""What watching a board costs, and what a rehearsal on a virtual one came to: the files, and the page's sections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TelemetryRow:
    """The cost of sampling one board.

    Attributes:
        board: Whose files were read.
        files: Files read a sample.
        values: Values known.
        cpu_s: CPU time a sample, all threads, the median over rounds.
        core_share: Of a core, at a sample a second.
    """

    board: str
    files: int
    values: int
    cpu_s: float
    core_share: float


@dataclass(frozen=True)
class TelemetryCost:
    """results/telemetry_cost.json."""

    date: str
    cpu: str
    samples: int
    load_average: float
    rows: tuple[TelemetryRow, ...]
    goal: float
    met: bool


@dataclass(frozen=True)
class Served:
    """Requests of one priority.

    Attributes:
        priority: Its name.
        asked: Requests that came.
        refused: Turned away.
        answered: Answered to their end.
        first_p50_s: To the first token, the median.
        first_p95_s: Likewise, 95th percentile.
        first_max_s: Likewise, the longest.
        whole_p95_s: To the last token, 95th percentile.
        whole_max_s: Likewise, the longest.
    """

    priority: str
    asked: int
    refused: int
    answered: int
    first_p50_s: float
    first_p95_s: float
    first_max_s: float
    whole_p95_s: float
    whole_max_s: float


@dataclass(frozen=True)
class RehearsalRun:
    """One run of a rehearsal.

    Attributes:
        policy: Whether the policy decided.
        peak_c: The hottest that any part of the model was.
        kernel_throttled_s: How long the kernel's governor held the clock down.
        shut_down: Whether the board switched itself off.
        late_emergencies: Emergencies answered later than their budget, or not at all.
        changes: Changes of the policy's rung.
        most_changes_an_hour: In the worst hour.
        least_distance_s: Between two changes; None for fewer than two.
        level_share: Share of the time on each rung that was taken, by its name.
        busy_share: Share of the time in which a step ran.
        steps: Steps of the session.
        samples: Samples of the meters.
        wall_s: How long the run took.
        cpu_s: CPU time it took.
        served: The requests.
    """

    policy: bool
    peak_c: float
    kernel_throttled_s: float
    shut_down: bool
    late_emergencies: int
    changes: int
    most_changes_an_hour: int
    least_distance_s: float | None
    level_share: dict[str, float]
    busy_share: float
    steps: int
    samples: int
    wall_s: float
    cpu_s: float
    served: tuple[Served, ...]


@dataclass(frozen=True)
class RehearsalResult:
    """results/rehearsal.json: days of mixed load on a virtual board, with the policy and without.

    Attributes:
        date: When.
        cpu: The machine's processor.
        load_average: Of the machine when it began.
        board: The virtual board.
        assumed: Its parameters that nobody vouches for.
        hours: Hours of virtual time.
        seed: Of the load.
        air_c: The air's lowest and highest temperature.
        trip_c: The temperature not to be passed.
        budget_s: Time in which an emergency must be answered whole.
        runs: With the policy, then without.
        goal_s: The wall time that the run with the policy must stay under.
        met: Whether all goals are met: time, trip, emergencies.
    """

    date: str
    cpu: str
    load_average: float
    board: str
    assumed: tuple[str, ...]
    hours: float
    seed: int
    air_c: tuple[float, float]
    trip_c: float
    budget_s: float
    runs: tuple[RehearsalRun, ...]
    goal_s: float
    met: bool


def telemetry_cost(result: TelemetryCost) -> list[str]:
    """What meters cost."""
    return [
        "## Cost of watching a board\n",
        f"`python -m benchmarks.telemetry_cost`, {result.date}. CPU time (user and system, all threads) of "
        f"{result.samples} samples of each board's files through a real folder, time limits on; medians of rounds. "
        f"{result.cpu}, load average {result.load_average:.1f}. What a real board's drivers take to make these files "
        "is not in it, and a small Arm core is several times slower.\n",
        "| board | files | values known | CPU time a sample | of a core, at a sample a second |",
        "|---|---|---|---|---|",
        *(
            f"| {row.board} | {row.files} | {row.values} | {row.cpu_s * 1e6:.0f} us | {row.core_share:.3%} |"
            for row in result.rows
        ),
        "",
        f"Goal: under {result.goal:.1%} of a core: {'met' if result.met else 'missed'}.\n",
    ]


_RUN_COLUMNS = (
    *("", "hottest", "over the trip", "kernel throttled", "late emergencies", "changes", "in the worst hour"),
    *("steps", "wall time", "CPU time"),
)
_SERVED_COLUMNS = (
    *("asked", "turned away", "answered", "first token, median", "95 %", "longest", "whole, 95 %", "longest"),
)


def rehearsal(result: RehearsalResult) -> list[str]:
    """Days on a virtual board."""
    low, high = result.air_c
    held, alone = result.runs
    distance = f" Two changes were at least {held.least_distance_s:.0f} s apart." if held.least_distance_s else ""
    rungs = ", ".join(f"{name} {share:.1%}" for name, share in held.level_share.items())
    return [
        f"## {result.hours:g} hours of mixed load on a virtual board\n",
        f"`python -m benchmarks.rehearsal`, {result.date}. The scheduler, meters, policy and clock control that serve, "
        f"on a virtual {result.board} (docs/virtual_boards.md) and a null engine with the published speed of "
        "Gemma2-2B in w8a8, in virtual time. Four priorities, most of the work from 10 to 18 o'clock, air between "
        f"{low:.0f} and {high:.0f} degrees, seed {result.seed}. No board was used: {len(result.assumed)} of the "
        "model's parameters are assumed, and steps are taken to slow down in proportion to the clock. "
        f"{result.cpu}, load average {result.load_average:.1f}.\n",
        *_header(_RUN_COLUMNS),
        *(_run(run, result) for run in result.runs),
        "",
        f"The trip is {result.trip_c:g} degrees; an emergency is late if its answer is not whole after "
        f"{result.budget_s:g} s. Goals: trip never passed, no emergency late, under {result.goal_s:.0f} s of wall time "
        f"with the policy: {_verdict(result)}.{distance}\n",
        *_header(("with the policy", *_SERVED_COLUMNS)),
        *(_served(one) for one in held.served),
        "",
        *_header(("the kernel's governor alone", *_SERVED_COLUMNS)),
        *(_served(one) for one in alone.served),
        "",
        f"Time on each rung: {rungs}. What the policy costs is in the tables: these sensors are right, and it acts as "
        "if they were 3 degrees too low.\n",
    ]


def _verdict(result: RehearsalResult) -> str:
    """Whether the goals are met, and which is not."""
    held = result.runs[0]
    if result.met:
        return "met"
    slow = held.wall_s >= result.goal_s
    cool = held.peak_c <= result.trip_c and not held.shut_down
    missed = [
        *([] if cool else ["the trip"]),
        *([] if held.late_emergencies == 0 else ["the emergencies"]),
        *(
            [f"the wall time (one thread, {held.cpu_s:.0f} s of CPU time, on a machine shared with others)"]
            if slow
            else []
        ),
    ]
    return f"MISSED: {', '.join(missed)}"


def _header(columns: tuple[str, ...]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _run(run: RehearsalRun, result: RehearsalResult) -> str:
    cells = [
        "with the policy" if run.policy else "the kernel's governor alone",
        f"{run.peak_c:.1f} °C",
        "yes" if run.peak_c > result.trip_c else "no",
        f"{run.kernel_throttled_s / 3600:.1f} h",
        f"{run.late_emergencies}",
        f"{run.changes}" if run.policy else "",
        f"{run.most_changes_an_hour}" if run.policy else "",
        f"{run.steps}",
        f"{run.wall_s:.0f} s",
        f"{run.cpu_s:.0f} s",
    ]
    return f"| {' | '.join(cells)} |"


def _served(one: Served) -> str:
    times = (one.first_p50_s, one.first_p95_s, one.first_max_s, one.whole_p95_s, one.whole_max_s)
    cells = [
        one.priority,
        str(one.asked),
        str(one.refused),
        str(one.answered),
        *(f"{time_s:.1f} s" for time_s in times),
    ]
    return f"| {' | '.join(cells)} |"
