"""How does `chipwise serve` treat urgent requests under load, many streams, and shared prompts, beside llama.cpp?

    python -m benchmarks.serving [--rounds N]

Both servers run in processes of their own, on the same 4-bit weights, with as many threads; this process is the client.
They take turns, round by round, so that both share the machine's noise. Writes results/serving.json.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np

from benchmarks import llama_server
from benchmarks.load import Asked, Prompts, ask, background, client_of, stream_for, tokens_between
from benchmarks.machine import bandwidth, facts, load_average, today
from benchmarks.model import built_bundle, cache, smollm2
from benchmarks.results import RESULTS, Missing, save
from benchmarks.served import CONTEXT, Server
from benchmarks.serving_results import Rate, ServedOutcome, Serving, SharedPrompt, Streams, Urgent, verdicts

STREAMS = (1, 2, 4, 8)
_URGENT_TOKENS, _URGENT_ANSWER = 64, 16
# Urgent requests a round, and the mean time between two of them over what one takes alone.
_URGENT_REQUESTS, _CALM_GAP = 12, 4.0
_SHARED_TOKENS, _OWN_TOKENS = 600, 20
_BACKGROUND_STREAMS, _BACKGROUND_PROMPT, _BACKGROUND_ANSWER = 4, 32, 200


async def urgent_round(url: str, prompts: Prompts, seed: int, *, calm: int, window_s: float) -> Urgent:
    """Urgent requests alone, background alone, and both together."""
    chance = np.random.default_rng(seed)
    async with client_of(url) as client:
        await ask(client, prompts.new(_URGENT_TOKENS), _URGENT_ANSWER)
        alone = [await ask(client, prompts.new(_URGENT_TOKENS), _URGENT_ANSWER, "emergency") for _ in range(calm)]
        undisturbed = await _background_rate(client, prompts, window_s)

        # Each comes at a random time after the last was answered: they wait for the background, not for each other.
        mean_s = _CALM_GAP * statistics.fmean(one.duration_s for one in alone)
        running = asyncio.Event()
        work = asyncio.create_task(_run_background(client, prompts, running))
        await asyncio.sleep(2.0)
        start_s, urgent = time.perf_counter(), []
        for gap_s in chance.exponential(mean_s, _URGENT_REQUESTS):
            await asyncio.sleep(float(gap_s))
            urgent.append(await ask(client, prompts.new(_URGENT_TOKENS), _URGENT_ANSWER, "emergency"))
        end_s = time.perf_counter()
        running.set()
        beside = tokens_between(await work, start_s, end_s) / (end_s - start_s)
    # What urgent work takes when nothing else runs is its share of the machine.
    share = len(urgent) * statistics.fmean(one.duration_s for one in alone) / (end_s - start_s)
    return Urgent(
        alone_ttft_s=tuple(one.ttft_s for one in alone),
        loaded_ttft_s=tuple(one.ttft_s for one in urgent),
        background_alone=undisturbed,
        background_beside=beside,
        share=share,
    )


async def _run_background(client: httpx.AsyncClient, prompts: Prompts, ended: asyncio.Event) -> list[Asked]:
    return await background(client, prompts, _BACKGROUND_STREAMS, _BACKGROUND_PROMPT, _BACKGROUND_ANSWER, ended)


async def _background_rate(client: httpx.AsyncClient, prompts: Prompts, window_s: float) -> float:
    ended = asyncio.Event()
    work = asyncio.create_task(_run_background(client, prompts, ended))
    await asyncio.sleep(2.0)
    start_s = time.perf_counter()
    await asyncio.sleep(window_s)
    ended.set()
    return tokens_between(await work, start_s, start_s + window_s) / window_s


async def streams_round(url: str, prompts: Prompts, streams: int, window_s: float) -> float:
    """Tokens a second, of all streams together: 64 prompt tokens and up to 96 of an answer a request."""
    async with client_of(url) as client:
        ended = asyncio.Event()
        tasks = [asyncio.create_task(stream_for(client, prompts, 64, 96, ended, None)) for _ in range(streams)]
        await asyncio.sleep(1.0)
        start_s = time.perf_counter()
        await asyncio.sleep(window_s)
        ended.set()
        found = [one for each in await asyncio.gather(*tasks) for one in each]
    return tokens_between(found, start_s, start_s + window_s) / window_s


async def shared_round(url: str, prompts: Prompts) -> tuple[Asked, Asked]:
    """Two requests whose first 600 tokens are the same."""
    shared = prompts.new(_SHARED_TOKENS)
    async with client_of(url) as client:
        first = await ask(client, [*shared, *prompts.new(_OWN_TOKENS)], 4)
        second = await ask(client, [*shared, *prompts.new(_OWN_TOKENS)], 4)
    return first, second


def contestants(gguf: Path, bundle: Path) -> tuple[list[Server], list[Missing]]:
    """The servers that are there, and the peer if it is not."""
    found = [Server("chipwise", "chipwise w4a16", bundle)]
    reason = llama_server.missing()
    if reason is not None:
        return found, [Missing("llama.cpp's server, Q4_0", reason)]
    model = cache(gguf) / "llama-server-q4_0.gguf"
    if not model.exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        half = model.with_suffix(".half")
        command = [llama_server.place() / "llama-quantize", "--allow-requantize", gguf, half, "Q4_0"]
        subprocess.run(command, check=True, capture_output=True)
        half.replace(model)
    return [*found, Server("llama_server", "llama.cpp's server, Q4_0", model)], []


def measure(servers: list[Server], rounds: int, window_s: float, threads: int) -> tuple[ServedOutcome, ...]:
    """All rounds of all servers, in turns."""
    urgent: dict[str, list[Urgent]] = {server.name: [] for server in servers}
    rates: dict[str, dict[int, list[float]]] = {server.name: {n: [] for n in STREAMS} for server in servers}
    shared: dict[str, list[tuple[Asked, Asked]]] = {server.name: [] for server in servers}
    loads: dict[str, list[float]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers:
            prompts = Prompts(number)
            loads[server.name].append(load_average())
            with server.running(_BACKGROUND_STREAMS, urgent=1, threads=threads) as url:
                one = asyncio.run(urgent_round(url, prompts, number, calm=8, window_s=window_s))
                urgent[server.name].append(one)
                shared[server.name] += [asyncio.run(shared_round(url, prompts)) for _ in range(2)]
            with server.running(max(STREAMS), threads=threads) as url:
                for streams in STREAMS:
                    rates[server.name][streams].append(asyncio.run(streams_round(url, prompts, streams, window_s / 2)))
            _print(
                server, number, one, {n: found[-1] for n, found in rates[server.name].items()}, shared[server.name][-1]
            )
    return tuple(
        ServedOutcome(
            name=server.name,
            title=server.title,
            load_averages=tuple(loads[server.name]),
            urgent=tuple(urgent[server.name]),
            streams=tuple(Streams(n, _rate(found)) for n, found in rates[server.name].items()),
            shared=SharedPrompt(
                first_ttft_s=tuple(first.ttft_s for first, _ in shared[server.name]),
                second_ttft_s=tuple(second.ttft_s for _, second in shared[server.name]),
                cached_tokens=tuple(second.cached_tokens for _, second in shared[server.name]),
            ),
        )
        for server in servers
    )


def _rate(found: list[float]) -> Rate:
    return Rate(statistics.median(found), min(found), max(found), tuple(found))


def _print(server: Server, number: int, urgent: Urgent, rates: dict[int, float], pair: tuple[Asked, Asked]) -> None:
    print(
        f"round {number + 1} {server.name}: urgent p95 {urgent.multiple(95):.2f} of {urgent.alone_s * 1000:.0f} ms "
        f"({len(urgent.loaded_ttft_s)} requests), background {urgent.background_ratio:.2f}, tokens/s "
        + " ".join(f"{streams}:{found:.0f}" for streams, found in rates.items())
        + f", shared {pair[1].ttft_s / pair[0].ttft_s:.3f}",
        flush=True,
    )


def main() -> int:
    """Run and save; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="chipwise serve under load, beside llama.cpp's server.")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each server (2)")
    parser.add_argument("--window", type=float, default=20.0, help="seconds of each measurement (20)")
    parser.add_argument("--bundle", type=Path, help="a built bundle; without it one is built and kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "serving.json", help="where the result goes")
    arguments = parser.parse_args()
    gguf = smollm2()
    servers, missing = contestants(gguf, arguments.bundle or built_bundle(gguf))
    before = bandwidth()
    outcomes = measure(servers, arguments.rounds, arguments.window, arguments.threads)
    result = Serving(
        date=today(),
        model=gguf.stem,
        machine=facts(before, bandwidth()),
        peer_version=None if missing else llama_server.version(),
        threads=arguments.threads,
        context=CONTEXT,
        window_s=arguments.window,
        outcomes=outcomes,
        missing=tuple(missing),
        verdicts=verdicts(outcomes),
    )
    save(result, arguments.out)
    for verdict in result.verdicts:
        print(f"{verdict.question}: {verdict.value:.3f}, goal {verdict.goal}: {'met' if verdict.met else 'MISSED'}")
    return 0 if all(verdict.met for verdict in result.verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
