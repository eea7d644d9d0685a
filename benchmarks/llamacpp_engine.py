"""What do chipwise's scheduler and llama.cpp's own make of the same GGUF file?

    python -m benchmarks.llamacpp_engine [--rounds N]

The engine `llama.cpp` under `chipwise serve` (in a process of its own, as it is served, and without), and llama.cpp's
server, with as many threads, in turns. Beside tokens a second it counts tokens a second of CPU time of all the
server's processes: on a machine that others use, too, the first says little. Writes results/llamacpp_engine.json.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks import llama_server
from benchmarks.llamacpp_engine_results import EngineBesideServer, EngineRates
from benchmarks.load import Prompts, ask, client_of, stream_for, tokens_between
from benchmarks.machine import bandwidth, facts, load_average, today
from benchmarks.model import cache, smollm2
from benchmarks.results import RESULTS, save
from benchmarks.served import Server
from benchmarks.serving import contestants

STREAMS = (1, 4, 8)


def servers(gguf: Path) -> list[Server]:
    """The engine in both forms, and the peer, all on one file in Q4_0.

    Raises:
        SystemExit: The peer is missing, or the bundle cannot be built.
    """
    found, missing = contestants(gguf, Path())
    if missing:
        raise SystemExit(f"error: {missing[0].reason}")
    peer = found[1]
    bundle = cache(gguf) / "llamacpp-engine"
    if not bundle.exists():
        command = [sys.executable, "-m", "chipwise.cli.main", "build", peer.model, "--target", "host"]
        command += ["--engine", "llama.cpp", "--cases", "10", "-o", bundle]
        subprocess.run(command, check=True)
    return [
        Server("chipwise", "chipwise, engine llama.cpp", bundle),
        Server("chipwise", "the same in the server's process", bundle, ("--no-isolate",)),
        peer,
    ]


async def rates_of(url: str, prompts: Prompts, streams: int, window_s: float) -> tuple[float, float]:
    """Tokens a second and a second of CPU time: 16 prompt tokens and 96 of an answer a request.

    The window begins when every stream has been answered once.
    """
    async with client_of(url) as client:
        await asyncio.gather(*(ask(client, prompts.new(16), 4) for _ in range(streams)))
        ended = asyncio.Event()
        tasks = [asyncio.create_task(stream_for(client, prompts, 16, 96, ended, None)) for _ in range(streams)]
        await asyncio.sleep(2.0)
        start_s, before_s = time.perf_counter(), cpu_s()
        await asyncio.sleep(window_s)
        end_s, after_s = time.perf_counter(), cpu_s()
        ended.set()
        asked = [one for each in await asyncio.gather(*tasks) for one in each]
    tokens = tokens_between(asked, start_s, end_s)
    return tokens / (end_s - start_s), tokens / (after_s - before_s)


def cpu_s() -> float:
    """CPU time of the processes that this one started, and those they did."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(one.user + one.system for one in times)


def measure(found: list[Server], rounds: int, window_s: float, threads: int) -> tuple[EngineRates, ...]:
    """All rounds of all servers, in turns."""
    rates: list[dict[int, list[tuple[float, float]]]] = [{n: [] for n in STREAMS} for _ in found]
    loads: list[list[float]] = [[] for _ in found]
    for number in range(rounds):
        for index, server in enumerate(found):
            loads[index].append(load_average())
            with server.running(max(STREAMS), threads=threads) as url:
                for streams in STREAMS:
                    rates[index][streams].append(asyncio.run(rates_of(url, Prompts(number), streams, window_s)))
            said = " ".join(f"{n}:{each[-1][0]:.0f} ({each[-1][1]:.0f})" for n, each in rates[index].items())
            print(f"round {number + 1}, load {loads[index][-1]:.1f}, {server.title}: {said}", flush=True)
    return tuple(
        EngineRates(
            "_".join((server.name, *(option.strip("-") for option in server.options))),
            server.title,
            {n: tuple(wall for wall, _ in each) for n, each in rates[index].items()},
            {n: tuple(cpu for _, cpu in each) for n, each in rates[index].items()},
            tuple(loads[index]),
        )
        for index, server in enumerate(found)
    )


def main() -> int:
    """Run and save."""
    parser = argparse.ArgumentParser(description="The engine llama.cpp beside llama.cpp's server.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each server (2)")
    parser.add_argument("--window", type=float, default=10.0, help="seconds of each measurement (10)")
    parser.add_argument("--out", type=Path, default=RESULTS / "llamacpp_engine.json", help="where the result goes")
    arguments = parser.parse_args()
    gguf = smollm2()
    found = servers(gguf)
    before = bandwidth()
    outcome = measure(found, arguments.rounds, arguments.window, arguments.threads)
    machine = facts(before, bandwidth())
    result = EngineBesideServer(
        today(), gguf.stem, machine, llama_server.version(), arguments.threads, arguments.window, outcome
    )
    save(result, arguments.out)
    for one in outcome:
        medians = {n: round(statistics.median(one.tokens_per_cpu_s[n]), 1) for n in STREAMS}
        print(f"{one.title}: {medians} tokens a second of CPU time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
