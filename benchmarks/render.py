"""Write docs/benchmarks.md from results/*.json and tried.md, or with --check say that it is out of date."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.agent_traces_results import AgentTraces, agent_traces
from benchmarks.board_results import RehearsalResult, TelemetryCost, rehearsal, telemetry_cost
from benchmarks.chip_results import RockchipEmulation, RockchipModels
from benchmarks.decoder_results import RockchipDecoders, rockchip_decoders
from benchmarks.exchange_results import ExchangeCost, exchange
from benchmarks.isolation_results import IsolationCost, isolation
from benchmarks.llamacpp_engine_results import EngineBesideServer, llamacpp_engine
from benchmarks.logits_check_results import LogitsCheckCost, logits_check
from benchmarks.model import ROOT
from benchmarks.pipeline_results import PipelineResult, pipeline
from benchmarks.planted_results import PlantedDamage, planted_damage
from benchmarks.render_chips import rockchip_emulation, rockchip_models
from benchmarks.repair_results import RockchipRepair, rockchip_repair
from benchmarks.results import (
    RESULTS,
    BuildTime,
    DecodePrefill,
    Drift,
    MachineFacts,
    Outcome,
    Rate,
    Ratio,
    Rockchip,
    WriteMemory,
    load,
)
from benchmarks.serving_results import Serving, serving
from benchmarks.soak_results import Soak, soak
from benchmarks.verify_results import VerifyTime, verify_time

PAGE = ROOT / "docs" / "benchmarks.md"
TRIED = Path(__file__).parent / "tried.md"
NOTE = "<!-- Written by benchmarks/render.py from benchmarks/results/: do not edit. -->\n"
T = TypeVar("T")


def render(results: Path = RESULTS, tried: Path = TRIED) -> str:
    """The page; what was not run is said to be not run."""
    parts = [NOTE, "# Benchmarks\n"]
    parts += _section(results / "decode_prefill.json", DecodePrefill, decode_prefill)
    parts += _section(results / "drift.json", Drift, engine_drift)
    parts += _section(results / "planted_damage.json", PlantedDamage, planted_damage)
    parts += _section(results / "build_time.json", BuildTime, build_time)
    parts += _section(results / "serving.json", Serving, serving)
    parts += _section(results / "llamacpp_engine.json", EngineBesideServer, llamacpp_engine)
    parts += _section(results / "agent_traces.json", AgentTraces, agent_traces)
    parts += _section(results / "pipeline.json", PipelineResult, pipeline)
    parts += _section(results / "verify_time.json", VerifyTime, verify_time)
    parts += _section(results / "rockchip.json", Rockchip, rockchip)
    parts += _section(results / "rockchip_decoders.json", RockchipDecoders, rockchip_decoders)
    parts += _section(results / "rockchip_models.json", RockchipModels, rockchip_models)
    parts += _section(results / "rockchip_repair.json", RockchipRepair, rockchip_repair)
    parts += _section(results / "rockchip_emulation.json", RockchipEmulation, rockchip_emulation)
    parts += _section(results / "write_memory.json", WriteMemory, write_memory)
    parts += _section(results / "telemetry_cost.json", TelemetryCost, telemetry_cost)
    parts += _section(results / "logits_check.json", LogitsCheckCost, logits_check)
    parts += _section(results / "exchange.json", ExchangeCost, exchange)
    parts += _section(results / "isolation.json", IsolationCost, isolation)
    parts += _section(results / "rehearsal.json", RehearsalResult, rehearsal)
    parts += _section(results / "soak.json", Soak, soak)
    if tried.exists():
        parts.append(tried.read_text("utf-8"))
    return "\n".join(parts).strip() + "\n"


def _section(path: Path, kind: type[T], lines: Callable[[T], list[str]]) -> list[str]:
    """A result, and behind it those of other machines or earlier code: ``NAME@WHAT-IT-WAS.json``."""
    if not path.exists():
        return [f"## {path.stem}\n", f"Not run: `python -m benchmarks.{path.stem}` writes it.\n"]
    parts = lines(load(kind, path))
    for other in sorted(path.parent.glob(f"{path.stem}@*.json")):
        heading, *rest = lines(load(kind, other))
        parts += [f"#{heading.rstrip()}, {other.stem.partition('@')[2].replace('-', ' ').title()}\n", *rest]
    return parts


def decode_prefill(result: DecodePrefill) -> list[str]:
    """Decode, prefill and memory beside the peers."""
    work, first = result.workload, result.outcomes[0]
    return [
        "## Decode, prefill and memory\n",
        f"`python -m benchmarks.decode_prefill`, {result.date}. {result.model}, a prompt of {work.prompt_tokens} "
        f"random tokens (seed {work.seed}) and {work.new_tokens} more decoded greedily, {work.threads} threads, a "
        f"context of {work.context}. {len(first.rounds)} rounds A B C A B C, each engine in a new process each round, "
        "warmed up; medians, in brackets the slowest and fastest round. Compare rows, not machines. The bundle's gate "
        f"{_passed(result.gate_passed)}.\n",
        _machine(result.machine, [one.load_average for outcome in result.outcomes for one in outcome.rounds]),
        "| engine | prefill tok/s | decode tok/s | read a token | share of bandwidth | peak memory | opens in |",
        "|---|---|---|---|---|---|---|",
        *(_outcome(outcome) for outcome in result.outcomes),
        "",
        *(f"{missing.title} is not in the table: {missing.reason}.\n" for missing in result.missing),
        "Read a token: the weights of all products as their file stores them, plus keys and values in the middle of "
        "decoding. Share of bandwidth: these bytes a second over the machine's measured read bandwidth. Peak memory: "
        "VmHWM, the process's largest resident set with interpreter, runtime and mapped files.\n",
        *_ratios(result.ratios),
        "Versions: " + "; ".join(f"{one.title}: {_versions(one.versions)}" for one in result.outcomes) + ".\n",
    ]


def engine_drift(result: Drift) -> list[str]:
    """What the speeds are worth."""
    return [
        "## Drift of the same models\n",
        f"`python -m benchmarks.drift`, {result.date}. The values of {result.model} in float32 answer {result.queries} "
        f"general queries; at the {result.positions} tokens of these answers each engine's next-token distribution is "
        "compared with theirs.\n",
        "| engine | KL divergence | same next token | perplexity ratio |",
        "|---|---|---|---|",
        *(
            f"| {one.title} | {one.kl_mean_nats:.4f} nats | {one.top1_agreement:.1%} | {one.perplexity_ratio:.3f} |"
            for one in result.engines
        ),
        "",
    ]


def build_time(result: BuildTime) -> list[str]:
    """The steps of a build."""
    return [
        "## Time of a build\n",
        f"`python -m benchmarks.build_time`, {result.date}. `chipwise build {result.model}.gguf --target host --recipe "
        f"{result.recipe}`, verified on {result.cases} queries; the gate {_passed(result.gate_passed)}.\n",
        _machine(result.machine, [result.load_average]),
        "| step | seconds | peak memory so far | found |",
        "|---|---|---|---|",
        *(f"| {s.name} | {s.duration_s:.1f} | {_megabytes(s.peak_bytes)} | {s.note} |" for s in result.steps),
        f"| all steps | {result.total_s:.1f} | | |",
        f"| the whole command | {result.wall_s:.1f} | | {_goal(result.met, f'under {result.goal_s:.0f} s')} |",
        "",
    ]


def rockchip(result: Rockchip) -> list[str]:
    """Rockchip's compiler and simulator."""
    return [
        "## Rockchip's own compiler and simulator\n",
        f"`python -m benchmarks.rockchip`, {result.date}. {result.toolkit}; the prefill graph of {result.model} "
        f"({result.tokens} tokens), calibrated on {result.cases} queries, simulated on {result.cases} answers of the "
        "suite and compared with ONNX Runtime in float32. No board was used: the simulator computes what the chip "
        "computes, and has no timing. A mask of -10000 is what exporters write; an 8-bit scale that spans it leaves "
        "the scores a single step.\n",
        "| chip | scheme | mask | KL divergence | same next token | on the CPU | .rknn | build | peak memory |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {b.chip} | {b.scheme} | {b.mask_value:g} | {b.kl_mean_nats:.4f} nats | {b.top1_agreement:.1%} "
            f"| {b.cpu_operators} of {b.operators} operators | {b.size_bytes / 1e6:.1f} MB | {b.build_s:.0f} s "
            f"| {_megabytes(b.peak_bytes)} |"
            for b in result.builds
        ),
        "",
    ]


def write_memory(result: WriteMemory) -> list[str]:
    """Memory of writing graphs."""
    return [
        "## Memory of writing a model\n",
        f"`python -m benchmarks.write_memory`, {result.date}. {result.model} written as ONNX in float32; the process's "
        "own memory (RssAnon) at its peak over the size of the weights written.\n",
        "| graphs | written | own memory | ratio | VmHWM |",
        "|---|---|---|---|---|",
        *(
            f"| {w.form} | {_megabytes(w.written_bytes)} | {_megabytes(w.anonymous_bytes)} | {w.ratio:.2f} "
            f"| {_megabytes(w.peak_bytes)} |"
            for w in result.written
        ),
        "",
        f"Goal: at most {result.goal}: {'met' if result.met else 'missed'}.\n",
    ]


def _outcome(outcome: Outcome) -> str:
    read = outcome.weights_read_bytes + outcome.kv_read_bytes
    cells = [
        outcome.title, _rate(outcome.prefill), _rate(outcome.decode), _megabytes(read),
        f"{outcome.bandwidth_share:.2f}", _megabytes(outcome.peak_bytes), f"{outcome.open_s:.2f} s",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _ratios(ratios: Sequence[Ratio]) -> list[str]:
    if not ratios:
        return ["No peer was there to compare with.\n"]
    rows = ["| chipwise against the best peer | ratio | rounds | goal | |", "|---|---|---|---|---|"]
    for ratio in ratios:
        spread = "" if ratio.lowest is None or ratio.highest is None else f"{ratio.lowest:.2f} to {ratio.highest:.2f}"
        bound = "at most" if ratio.measure == "memory" else "at least"
        verdict = "met" if ratio.met else f"missed by {abs(ratio.value / ratio.goal - 1):.0%}"
        against = f"{ratio.measure}, against {ratio.against}"
        rows.append(f"| {against} | **{ratio.value:.2f}** | {spread} | {bound} {ratio.goal} | {verdict} |")
    return [*rows, ""]


def _machine(machine: MachineFacts, loads: Sequence[float]) -> str:
    memory = f", {machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else ""
    caches = ", ".join(f"{name} {size >> 10} KiB" for name, size in machine.cache_bytes.items())
    busy = f"{min(loads):.1f}" if max(loads) - min(loads) < 0.05 else f"{min(loads):.1f} to {max(loads):.1f}"
    return (
        f"Machine: {machine.cpu}, {machine.cores} cores ({' '.join(machine.features)}), {caches}{memory}, "
        f"{machine.system}; reads {machine.read_bps / 1e9:.1f} GB/s ({machine.read_note}). Load average {busy}.\n"
    )


def _goal(met: bool, words: str) -> str:
    return f"goal: {words}, {'met' if met else 'missed'}"


def _passed(passed: bool) -> str:
    return "passed" if passed else "**failed**"


def _rate(rate: Rate) -> str:
    return f"{rate.median:.0f} ({rate.lowest:.0f}-{rate.highest:.0f})"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _megabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:.0f} MB"


def main() -> int:
    """Write the page, or with --check compare it; 1 if it is out of date."""
    if sys.argv[1:] not in ([], ["--check"]):
        print("usage: python -m benchmarks.render [--check]", file=sys.stderr)
        return 2
    text = render()
    if not sys.argv[1:]:
        PAGE.write_text(text, "utf-8")
        print(f"{PAGE.relative_to(ROOT)} written")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date; run python -m benchmarks.render")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
