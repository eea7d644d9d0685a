"""What does an exchange of the served model cost those that are served meanwhile?

    python -m benchmarks.exchange A B [A B ...] [--rounds N] [--phase-s S] [--threads N]

Serves each bundle A, in the server's process and with an engine in one of its own, and exchanges it for B and back
under load, in phases that take turns with quiet ones of the same length: so whatever else the machine does meets both.
Two pairs take some six minutes on a machine that does nothing else. Writes results/exchange.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psutil

from benchmarks.exchange_results import ExchangeCost, ExchangeRow, Waits
from benchmarks.machine import load_average, today
from benchmarks.results import RESULTS, save
from benchmarks.soak_client import Call, call
from chipwise.bundle import open_bundle
from chipwise.target.host.machine import look

STREAMS = 2
# Between two emergencies, drawn evenly: they are to meet every part of an opening.
PAUSE_S = (0.1, 0.3)
SETTLE_S = 1.5
# A 95th percentile of fewer would be the word of one or two.
LEAST_EMERGENCIES = 40
WORDS = ("turn", "on", "the", "light", "kitchen", "please", "tell", "me", "weather", "tomorrow", "at", "noon")


@dataclass
class Load:
    """Clients of one server.

    Attributes:
        url: The server.
        calls: What became of their requests, with the phase that they were sent in.
        phase: The phase there is.
    """

    url: str
    calls: list[tuple[str, Call]] = field(default_factory=list)
    phase: str = "warm-up"
    ended: bool = False
    chance: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    async def background(self, client: httpx.AsyncClient) -> None:
        """One request after another."""
        while not self.ended:
            await self._ask(client, "background", 24, 48)

    async def emergencies(self, client: httpx.AsyncClient) -> None:
        """One after another, with a pause between."""
        while not self.ended:
            await self._ask(client, "emergency", 24, 4)
            await asyncio.sleep(self.chance.uniform(*PAUSE_S))

    async def _ask(self, client: httpx.AsyncClient, priority: str, words: int, tokens: int) -> None:
        # Each text is another one, so that no beginning is there already.
        text = " ".join(self.chance.choice(WORDS, words))
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "priority": priority}
        phase = self.phase
        self.calls.append((phase, await call(client, priority, body, 0.0)))


@dataclass
class Watch:
    """Resident memory of a server and what it started."""

    process: psutil.Process
    largest: int = 0
    ended: bool = False

    def now(self) -> int:
        """Bytes, now."""
        total = 0
        for one in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
        self.largest = max(self.largest, total)
        return total

    async def run(self) -> None:
        """Look ten times a second."""
        while not self.ended:
            self.now()
            await asyncio.sleep(0.1)


async def _phases(load: Load, watch: Watch, bundles: tuple[Path, Path], rounds: int, phase_s: float) -> ExchangeRow:
    took_s: list[float] = []
    begin = 0
    async with httpx.AsyncClient(base_url=load.url, timeout=120) as client, asyncio.TaskGroup() as group:
        for _ in range(STREAMS):
            group.create_task(load.background(client))
        group.create_task(load.emergencies(client))
        group.create_task(watch.run())
        await asyncio.sleep(3)
        for _ in range(rounds):
            began_s = time.monotonic()
            load.phase = "exchanging"
            while time.monotonic() - began_s < phase_s:
                other = bundles[(len(took_s) + 1) % 2]
                answer = (await client.post("/v1/admin/reload", json={"bundle": str(other)})).raise_for_status().json()
                if not answer["changed"]:
                    raise RuntimeError(f"{other} is what was served already")
                took_s.append(answer["took_s"])
                begin = begin or watch.now()
            lasted_s = time.monotonic() - began_s
            load.phase = "between"
            await asyncio.sleep(SETTLE_S)
            load.phase = "quiet"
            await asyncio.sleep(lasted_s)
        load.phase = "end"
        load.ended = True
        await asyncio.sleep(3)
        end = watch.now()
        watch.ended = True
    names = [open_bundle(path).manifest.name for path in bundles]
    whole = sum(one.ending == "answered" for _, one in load.calls)
    return ExchangeRow(
        *names, False, len(took_s), statistics.median(took_s), max(took_s), _waits(load, "quiet"),
        _waits(load, "exchanging"), whole, len(load.calls) - whole, begin, end, watch.largest,
    )  # fmt: skip


def _waits(load: Load, phase: str) -> Waits:
    times = [one.ttft_s for when, one in load.calls if when == phase and one.kind == "emergency" and one.ttft_s]
    return Waits(len(times), *(float(np.percentile(times, share)) for share in (50, 95)), max(times))


def measure(bundles: tuple[Path, Path], threads: int, rounds: int, phase_s: float, *, isolated: bool) -> ExchangeRow:
    """One server, from its start to its end."""
    command = [sys.executable, "-m", "chipwise.cli.main", "serve", str(bundles[0]), "--port", "0"]
    command += ["--context", "512", "--threads", str(threads), "--isolate" if isolated else "--no-isolate"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        said = ""
        while (ready := re.search(r"ready at (\S+)/v1", said)) is None:
            said = process.stdout.readline()
            if not said:
                raise SystemExit("error: the server ended instead of serving")
        watch = Watch(psutil.Process(process.pid))
        row = asyncio.run(_phases(Load(ready[1]), watch, bundles, rounds, phase_s))
    finally:
        process.terminate()
        process.wait(60)
    return ExchangeRow(**{**row.__dict__, "isolated": isolated})


def main() -> int:
    """Run and save."""
    parser = argparse.ArgumentParser(description="The model of a server exchanged under load.")
    parser.add_argument("bundles", type=Path, nargs="+", help="pairs of bundles of decoders")
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine")
    parser.add_argument("--rounds", type=int, default=4, help="phases with exchanges, each followed by a quiet one")
    parser.add_argument("--phase-s", type=float, default=8.0, help="how long a phase lasts, in seconds")
    parser.add_argument("--out", type=Path, default=RESULTS / "exchange.json", help="where the result goes")
    chosen = parser.parse_args()
    busy, paths = load_average(), [path.resolve() for path in chosen.bundles]
    rows = tuple(
        measure(pair, chosen.threads, chosen.rounds, chosen.phase_s, isolated=isolated)
        for pair in zip(paths[::2], paths[1::2], strict=True)
        for isolated in (False, True)
    )
    save(ExchangeCost(today(), look().cpu.model, look().threads, chosen.threads, STREAMS, busy, rows), chosen.out)
    for row in rows:
        print(row)
        if min(row.quiet.sent, row.exchanging.sent) < LEAST_EMERGENCIES:
            print(f"fewer than {LEAST_EMERGENCIES} emergencies in a phase: take more --rounds")
    print(f"{chosen.out} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
