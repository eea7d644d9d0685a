"""What the benchmarks found, as results/*.json keep it. Numbers carry their units in their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from benchmarks.workload import Workload
from chipwise.files import write_atomic

RESULTS = Path(__file__).parent / "results"
T = TypeVar("T")


@dataclass(frozen=True)
class MachineFacts:
    """The machine of a run.

    Attributes:
        cpu: Its model.
        cores: Cores that may be used.
        memory_bytes: Main memory.
        cache_bytes: Caches by level.
        features: Instruction sets that matter to the kernels.
        system: Operating system and architecture.
        read_bps: Reads of main memory by all cores, the best measured before and after the rounds.
        read_note: How it was measured.
    """

    cpu: str
    cores: int
    memory_bytes: int | None
    cache_bytes: dict[str, int]
    features: tuple[str, ...]
    system: str
    read_bps: float
    read_note: str


@dataclass(frozen=True)
class Round:
    """One round of a contestant: the median times of its runs, and the load average when it began."""

    prefill_s: float
    decode_s: float
    load_average: float


@dataclass(frozen=True)
class Rate:
    """Tokens a second over the rounds."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Outcome:
    """A contestant's rounds and what follows from them.

    Attributes:
        name: Its key.
        title: Its name for people.
        versions: Versions in its environment.
        open_s: Time to open the model, the median.
        weights_read_bytes: Weights a decoded token reads, as stored.
        kv_read_bytes: Keys and values a token reads in the middle of decoding.
        peak_bytes: The largest VmHWM of its processes: weights, runtime and interpreter, mapped files included.
        rounds: The rounds.
        prefill: Prompt tokens a second.
        decode: New tokens a second.
        bandwidth_share: Bytes read a second while decoding over the machine's read bandwidth.
        first_tokens: The first tokens decoded, to see that the engines do the same work.
    """

    name: str
    title: str
    versions: dict[str, str]
    open_s: float
    weights_read_bytes: int
    kv_read_bytes: int
    peak_bytes: int
    rounds: tuple[Round, ...]
    prefill: Rate
    decode: Rate
    bandwidth_share: float
    first_tokens: tuple[int, ...]


@dataclass(frozen=True)
class Ratio:
    """chipwise against the best peer.

    Attributes:
        measure: ``decode``, ``prefill`` or ``memory``.
        value: Median over the rounds of chipwise's rate over the peer's in the same round; for memory the peaks.
        lowest: The lowest round; None for memory.
        highest: The highest round; None for memory.
        against: Title of the peer.
        goal: What it should be: at least for rates, at most for memory.
        met: Whether it is.
    """

    measure: str
    value: float
    lowest: float | None
    highest: float | None
    against: str
    goal: float
    met: bool


@dataclass(frozen=True)
class Missing:
    """A peer that was not there, and why."""

    title: str
    reason: str


@dataclass(frozen=True)
class DecodePrefill:
    """results/decode_prefill.json.

    Attributes:
        date: When.
        model: Its name.
        gate_passed: Whether verification was content with the bundle.
        machine: Where.
        workload: What every contestant ran.
        outcomes: The contestants that ran.
        missing: The peers that did not.
        ratios: chipwise against the best of them.
    """

    date: str
    model: str
    gate_passed: bool
    machine: MachineFacts
    workload: Workload
    outcomes: tuple[Outcome, ...]
    missing: tuple[Missing, ...]
    ratios: tuple[Ratio, ...]


@dataclass(frozen=True)
class EngineDrift:
    """How far an engine's answers are from the file's own values in float32, token by token."""

    title: str
    kl_mean_nats: float
    top1_agreement: float
    perplexity_ratio: float


@dataclass(frozen=True)
class Drift:
    """results/drift.json.

    Attributes:
        date: When.
        model: Its name.
        queries: Queries answered.
        positions: Answer tokens compared.
        engines: What each engine's model drifts.
    """

    date: str
    model: str
    queries: int
    positions: int
    engines: tuple[EngineDrift, ...]


@dataclass(frozen=True)
class RockchipBuild:
    """One build by Rockchip's toolkit and what its simulator computed.

    Attributes:
        chip: The target platform.
        scheme: Bits of weights and activations.
        mask_value: What the graph adds to a masked score.
        kl_mean_nats: Against ONNX Runtime in float32, over answer tokens.
        top1_agreement: Likewise.
        positions: Answer tokens compared.
        size_bytes: Of the .rknn file.
        operators: Operators of the compiled graph.
        cpu_operators: Those left to the CPU.
        build_s: Wall time of loading, building and simulating.
        peak_bytes: Largest memory of the job's processes; None where it could not be read.
    """

    chip: str
    scheme: str
    mask_value: float
    kl_mean_nats: float
    top1_agreement: float
    positions: int
    size_bytes: int
    operators: int
    cpu_operators: int
    build_s: float
    peak_bytes: int | None


@dataclass(frozen=True)
class Rockchip:
    """results/rockchip.json: one model, several chips; ``tokens`` is the graph's length."""

    date: str
    toolkit: str
    model: str
    tokens: int
    cases: int
    builds: tuple[RockchipBuild, ...]


@dataclass(frozen=True)
class BuildStep:
    """One step of a build: its name, time, the process's peak memory by its end, and what it found."""

    name: str
    duration_s: float
    peak_bytes: int | None
    note: str


@dataclass(frozen=True)
class BuildTime:
    """results/build_time.json: one build with verification.

    Attributes:
        date: When.
        model: Its name.
        machine: Where.
        recipe: Its recipe.
        cases: Queries verified.
        load_average: Of the machine when it began.
        gate_passed: Whether verification was content.
        steps: Its steps.
        total_s: The steps' sum.
        wall_s: Of the whole command.
        goal_s: What wall_s should stay under.
        met: Whether it does.
    """

    date: str
    model: str
    machine: MachineFacts
    recipe: str
    cases: int
    load_average: float
    gate_passed: bool
    steps: tuple[BuildStep, ...]
    total_s: float
    wall_s: float
    goal_s: float
    met: bool


@dataclass(frozen=True)
class Written:
    """What writing a form of the model took.

    Attributes:
        form: ``fused`` or ``portable``.
        written_bytes: Weights on disk.
        anonymous_bytes: Peak of the process's own memory (RssAnon) above where it stood before.
        peak_bytes: VmHWM, with the pages of the mapped source file.
        ratio: anonymous_bytes over written_bytes.
    """

    form: str
    written_bytes: int
    anonymous_bytes: int
    peak_bytes: int
    ratio: float


@dataclass(frozen=True)
class WriteMemory:
    """results/write_memory.json: memory of writing a model's graphs in float32."""

    date: str
    model: str
    versions: dict[str, str]
    written: tuple[Written, ...]
    goal: float
    met: bool


def save(result: object, path: Path) -> None:
    """Write a result as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, TypeAdapter(type(result)).dump_json(result, indent=1).decode() + "\n")


def load(kind: type[T], path: Path) -> T:
    """Read a result.

    Raises:
        pydantic.ValidationError: The file is not of this kind.
    """
    return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True, extra="forbid")
