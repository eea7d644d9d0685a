"""How fast is the built SmolLM2 in decode and prefill beside its peers, and how much memory does it take?

    python -m benchmarks.decode_prefill [--rounds N]

Rounds go A B C A B C, so that all share the machine's noise, and each contestant gets a new process each round: where
its weights happen to lie in memory moves decode by a tenth and more. A process warms up, then runs a few times.
Writes results/decode_prefill.json; `python -m benchmarks.render` makes the page of it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contestant import Contestant, Runner
from benchmarks.machine import bandwidth, facts, load_average, today
from benchmarks.model import built_bundle, cache, smollm2
from benchmarks.peer_models import genai_int4, gguf_q4_0
from benchmarks.peers import Peer, peers
from benchmarks.results import RESULTS, DecodePrefill, Missing, Outcome, Round, save
from benchmarks.runners.protocol import Job
from benchmarks.summary import OWN, rate, ratios
from benchmarks.traffic import gguf_traffic, onnx_traffic
from benchmarks.workload import Workload
from chipwise.bundle import open_bundle

_FIRST_TOKENS = 8
# Timed runs of a process, after one that warms it up; a round is their median.
_RUNS = 3


def own(bundle: Path) -> Contestant:
    """The contestant that runs the bundle."""
    graph = open_bundle(bundle).files["decoder"]
    return Contestant(OWN, "chipwise w4a16", Path(sys.executable), bundle, onnx_traffic(graph))


def _genai(peer: Peer, gguf: Path) -> Contestant:
    folder = genai_int4(peer, gguf, cache(gguf))
    return Contestant(peer.name, peer.title, peer.python, folder, onnx_traffic(folder / "model.onnx"))


def _llamacpp(peer: Peer, gguf: Path) -> Contestant:
    model = gguf_q4_0(peer, gguf, cache(gguf))
    return Contestant(peer.name, peer.title, peer.python, model, gguf_traffic(model))


_MAKERS: dict[str, Callable[[Peer, Path], Contestant]] = {"genai": _genai, "llamacpp": _llamacpp}


def gather(gguf: Path, bundle: Path) -> tuple[list[Contestant], list[Missing]]:
    """All contestants that are there, with their models made, and the peers that are not, with the reason."""
    contestants, missing = [own(bundle)], []
    for peer in peers():
        reason = peer.missing()
        if reason is None:
            print(f"{peer.title}: its model", flush=True)
            try:
                contestants.append(_MAKERS[peer.name](peer, gguf))
            except subprocess.CalledProcessError as e:
                reason = f"its model could not be made (code {e.returncode})"
        if reason is not None:
            print(f"{peer.title}: {reason}", flush=True)
            missing.append(Missing(peer.title, reason))
    return contestants, missing


def run(contestants: Sequence[Contestant], workload: Workload, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """All rounds of all contestants, by name."""
    found: dict[str, list[dict[str, Any]]] = {contestant.name: [] for contestant in contestants}
    for number in range(1, rounds + 1):
        for contestant in contestants:
            one = one_round(contestant, workload)
            found[contestant.name].append(one)
            _print_round(contestant.name, number, one, workload)
    return found


def one_round(contestant: Contestant, workload: Workload) -> dict[str, Any]:
    """A new process: what it said when it was ready, the median times of its runs, and its peak memory."""
    load = load_average()
    job = Job(str(contestant.model), workload.prompt(), workload.new_tokens, workload.context, workload.threads)
    runner = Runner(contestant.command(), job)
    try:
        runner.round()
        runs = [runner.round() for _ in range(_RUNS)]
        end = runner.finish()
    except BaseException:
        runner.kill()
        raise
    times = {name: statistics.median(run[name] for run in runs) for name in ("prefill_s", "decode_s")}
    return {**runner.ready, **times, **end, "tokens": runs[0]["tokens"], "load_average": load}


def outcome(contestant: Contestant, rounds: Sequence[dict[str, Any]], workload: Workload, read_bps: float) -> Outcome:
    """What a contestant's rounds come to."""
    decode = rate(workload.new_tokens, [one["decode_s"] for one in rounds])
    position = workload.mean_position
    return Outcome(
        name=contestant.name,
        title=contestant.title,
        versions=rounds[0]["versions"],
        open_s=statistics.median(one["open_s"] for one in rounds),
        weights_read_bytes=contestant.traffic.weights_bytes,
        kv_read_bytes=round(contestant.traffic.kv_bytes_per_position * position),
        peak_bytes=max(one["peak_bytes"] for one in rounds),
        rounds=tuple(Round(one["prefill_s"], one["decode_s"], one["load_average"]) for one in rounds),
        prefill=rate(workload.prompt_tokens, [one["prefill_s"] for one in rounds]),
        decode=decode,
        bandwidth_share=contestant.traffic.per_token(position) * decode.median / read_bps,
        first_tokens=tuple(rounds[0]["tokens"][:_FIRST_TOKENS]),
    )


def main() -> int:
    """Run and save; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="Decode, prefill and memory beside onnxruntime-genai and llama.cpp.")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (7)")
    parser.add_argument("--bundle", type=Path, help="a built bundle; without it one is built and kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "decode_prefill.json", help="where the result goes")
    arguments = parser.parse_args()
    gguf, workload = smollm2(), Workload()
    bundle = arguments.bundle or built_bundle(gguf)
    passed = all(verdict.passed for verdict in open_bundle(bundle).manifest.verdicts)
    contestants, missing = gather(gguf, bundle)
    before = bandwidth()
    found = run(contestants, workload, arguments.rounds)
    machine = facts(before, bandwidth())
    outcomes = tuple(outcome(one, found[one.name], workload, machine.read_bps) for one in contestants)
    result = DecodePrefill(today(), gguf.stem, passed, machine, workload, outcomes, tuple(missing), ratios(outcomes))
    save(result, arguments.out)
    for ratio in result.ratios:
        word = "met" if ratio.met else "MISSED"
        print(f"{ratio.measure}: {ratio.value:.3f} of {ratio.against}, goal {ratio.goal}: {word}")
    print(f"{arguments.out} written; python -m benchmarks.render puts it into docs/benchmarks.md")
    return 0 if result.ratios and all(ratio.met for ratio in result.ratios) else 1


def _print_round(name: str, number: int, times: dict[str, Any], workload: Workload) -> None:
    prefill, decode = workload.prompt_tokens / times["prefill_s"], workload.new_tokens / times["decode_s"]
    load = times["load_average"]
    print(
        f"round {number}  {name:<10} prefill {prefill:7.1f} tok/s  decode {decode:7.1f} tok/s  load {load:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
