"""What the repair of Rockchip builds came to, as results/rockchip_repair.json keeps it, and as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RepairRow:
    """One build on the way.

    Attributes:
        change: What was changed; ``the toolkit alone`` for the graph as it came.
        output_cosine: Of the output as one vector; None if the build failed.
        channel_cosine: Mean over channels; None if the build failed.
        kept: Whether it is part of what chipwise keeps.
        size_bytes: Of the .rknn file.
        float16: Values in float16.
    """

    change: str
    output_cosine: float | None
    channel_cosine: float | None
    kept: bool
    size_bytes: int | None
    float16: int


@dataclass(frozen=True)
class RepairCase:
    """A block and its builds.

    Attributes:
        block: What is in it, in words.
        goal: The least mean cosine of a channel, and of the whole output, that was asked for.
        passed: Whether it was reached.
        rows: The builds.
        kept_float16: Each value kept in float16, with its cost in words.
    """

    block: str
    goal: float
    passed: bool
    rows: tuple[RepairRow, ...]
    kept_float16: tuple[str, ...]


@dataclass(frozen=True)
class RockchipRepair:
    """results/rockchip_repair.json."""

    date: str
    toolkit: str
    chip: str
    scheme: str
    samples: int
    cases: tuple[RepairCase, ...]


def rockchip_repair(result: RockchipRepair) -> list[str]:
    """The section of the page."""
    lines = [
        "## Repair of 8-bit builds for Rockchip\n",
        f"`python -m benchmarks.rockchip_repair`, {result.date}. {result.toolkit}, {result.chip} {result.scheme}, "
        f"simulated on {result.samples} inputs that were not calibrated on, against ONNX Runtime in float32. The first "
        "row of a block is the toolkit alone on the graph as it came, the others are `chipwise build`, each starting "
        "from the best before it.\n",
    ]
    for case in result.cases:
        reached = "reached" if case.passed else "not reached"
        lines += [
            f"{case.block} Asked for: {case.goal} of both cosines, {reached}.\n",
            "| build | cosine a channel | whole cosine | .rknn | in float16 | kept |",
            "|---|---|---|---|---|---|",
            *(_row(row) for row in case.rows),
            "",
        ]
        if case.kept_float16:
            lines.append("Kept in float16: " + "; ".join(case.kept_float16) + ".\n")
    return lines


def _row(row: RepairRow) -> str:
    cosines = ["failed" if value is None else f"{value:.4f}" for value in (row.channel_cosine, row.output_cosine)]
    size = "" if row.size_bytes is None else f"{row.size_bytes / 1e6:.2f} MB"
    return f"| {row.change} | {' | '.join(cosines)} | {size} | {row.float16} values | {'yes' if row.kept else ''} |"
