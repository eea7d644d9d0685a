"""What benchmarks/verify_time.py found, as results/verify_time.json keeps it and the page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.results import MachineFacts


@dataclass(frozen=True)
class VerifyRun:
    """One way to run the command.

    Attributes:
        wall_s: Median time of the whole command, start of the process and report included.
        least_s: The fastest round's.
        most_s: The slowest round's.
        used_s: Median time of all processors, user and system.
    """

    wall_s: float
    least_s: float
    most_s: float
    used_s: float


@dataclass(frozen=True)
class VerifyTime:
    """results/verify_time.json: time of `chipwise verify`.

    Attributes:
        date: The day.
        model: The model.
        machine: The machine.
        recipe: The candidate's recipe; the reference is float32.
        cases: Cases verified.
        load_average: Programs that wanted a core over the minute before.
        rounds: Rounds of the three ways in turns.
        alone: Without a reference.
        computed: Beside a reference that is run, and its answers kept.
        kept: Beside the same reference, its answers read.
        kept_bytes: What the kept answers take.
        goal_s: What ``kept.wall_s`` should stay under.
        met: Whether it does.
    """

    date: str
    model: str
    machine: MachineFacts
    recipe: str
    cases: int
    load_average: float
    rounds: int
    alone: VerifyRun
    computed: VerifyRun
    kept: VerifyRun
    kept_bytes: int
    goal_s: float
    met: bool


def verify_time(result: VerifyTime) -> list[str]:
    """The section of the page."""
    rows = [
        ("without a reference", result.alone),
        ("beside the reference, which is run", result.computed),
        ("beside the reference, its answers kept", result.kept),
    ]
    goal = "met" if result.met else "missed"
    return [
        "## Time of a verification\n",
        f"`python -m benchmarks.verify_time`, {result.date}. `chipwise verify` of models/{result.model} in "
        f"{result.recipe} on {result.cases} cases of its suite, the whole command with start and report; the reference "
        f"is the same model in float32. {result.rounds} rounds A B C A B C; medians, in brackets the fastest and "
        "slowest round. Kept answers give the same report to the last digit; they take "
        f"{result.kept_bytes / 1e6:.0f} MB.\n",
        f"Machine: {result.machine.cpu}, {result.machine.cores} cores, {result.machine.system}. Load average "
        f"{result.load_average:.1f} when it began.\n",
        "| | seconds | seconds of all cores |",
        "|---|---|---|",
        *(
            f"| {name} | {one.wall_s:.1f} ({one.least_s:.1f}-{one.most_s:.1f}) | {one.used_s:.1f} |"
            for name, one in rows
        ),
        "",
        f"Goal, with answers kept: under {result.goal_s:.0f} s, {goal}.\n",
    ]
