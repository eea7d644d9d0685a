"""What stages side by side bring, as results/pipeline.json keeps it, and its section of the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PipelineRound:
    """One round: requests a second.

    Attributes:
        alone: Each stage by itself in one thread, by name.
        one_by_one: All stages one after the other in one thread.
        pipeline: All stages side by side.
        load_average: The load average when it began.
    """

    alone: dict[str, float]
    one_by_one: float
    pipeline: float
    load_average: float


@dataclass(frozen=True)
class PipelineResult:
    """results/pipeline.json.

    Attributes:
        model: What ran.
        picture: What each request held.
        requests: Requests of each measurement.
        ratio: The pipeline over its slowest stage alone, the median of the rounds.
        speedup: The pipeline over one thread, the median of the rounds.
        goal: The least ratio.
    """

    date: str
    cpu: str
    cores: int
    model: str
    picture: str
    requests: int
    rounds: tuple[PipelineRound, ...]
    ratio: float
    speedup: float
    goal: float
    met: bool


def pipeline(result: PipelineResult) -> list[str]:
    """What the pipeline does beside its slowest stage."""
    stages = list(result.rounds[0].alone)
    return [
        "## Stages side by side\n",
        f"`python -m benchmarks.pipeline`, {result.date}. {result.model}, one thread of ONNX Runtime; each request "
        f"holds {result.picture} and gets its output as bytes. Requests a second, {result.requests} a measurement, "
        f"each round measuring all of them in turn. {result.cpu}, {result.cores} cores.\n",
        f"| round | {' | '.join(f'{name} alone' for name in stages)} | one thread | pipeline | over its slowest stage "
        "| load average |",
        f"|---|{'---|' * (len(stages) + 4)}",
        *(_row(i, one, stages) for i, one in enumerate(result.rounds, start=1)),
        "",
        f"The pipeline runs at {result.ratio:.2f} of its slowest stage alone (goal {result.goal:.2f}: "
        f"{'met' if result.met else 'missed'}) and at {result.speedup:.2f} times one thread; medians of the rounds.\n",
    ]


def _row(number: int, one: PipelineRound, stages: list[str]) -> str:
    alone = " | ".join(f"{one.alone[name]:.1f}" for name in stages)
    share = one.pipeline / min(one.alone.values())
    return f"| {number} | {alone} | {one.one_by_one:.1f} | {one.pipeline:.1f} | {share:.2f} | {one.load_average:.1f} |"
