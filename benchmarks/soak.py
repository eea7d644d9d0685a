"""Does `chipwise serve` lose a request when everything goes wrong for twenty minutes, and does it stay as it was?

    python -m benchmarks.soak [--minutes 20]

The home-agent model with its engine in a process of its own, a fallback and a board in view. Open load of four
priorities; clients that leave, nonsense, NaN from a real weight, kills and hangs of the engine, sensors that vanish.
Writes results/soak.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.machine import load_average, today
from benchmarks.model import ROOT
from benchmarks.poisoned import poisoned
from benchmarks.results import RESULTS, save
from benchmarks.soak_client import Call, call, malformed
from benchmarks.soak_results import LATENCY_GOAL, MEMORY_GOAL, Soak, SoakKind, SoakWindow
from chipwise.bundle import open_bundle
from chipwise.model.queries import read_queries
from chipwise.sim.folder_board import FolderBoard, RealTime
from chipwise.sim.spec import load_spec
from chipwise.sim.virtual_board import Activity, VirtualBoard
from chipwise.target.host.machine import look

MODEL = ROOT / "models" / "home_agent"
SEED = 20261130
_OPTIONS = ("--slots", "4", "--reserve", "1", "--parking", "1", "--context", "512", "--queue", "32")
_POISON_AT = 440
_WINDOW_S, _WARM_UP_S = 300.0, 30.0
# Mean seconds between two requests of a kind.
_GAPS_S = {"interactive": 0.5, "normal": 1.5, "background": 2.0, "emergency": 5.0}
_LEAVES_GAP_S, _NONSENSE_GAP_S, _NAN_GAP_S, _KILL_GAP_S = 4.0, 2.0, 45.0, 100.0
_TOKENS = {"interactive": 40, "normal": 60, "background": 90, "emergency": 16}


@dataclass
class Watched:
    """What is noted while it runs."""

    calls: list[Call] = field(default_factory=list)
    rss_bytes: list[tuple[float, int, int]] = field(default_factory=list)
    kills: int = 0
    hangs: int = 0
    sensor_gone_s: float = 0.0


class Run:
    """One soak."""

    def __init__(self, url: str, server: subprocess.Popen[bytes], board: Path, seconds: float, words: int) -> None:
        self.client = httpx.AsyncClient(base_url=url, timeout=120, limits=httpx.Limits(max_connections=200))
        self.server, self.board, self.seconds = server, board, seconds
        self.start_s = time.perf_counter()
        self.seen = Watched()
        self._words = words
        self._queries = [query.messages for query in read_queries(MODEL / "queries.jsonl")][:40]
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start_s

    async def go(self) -> None:
        """All of it, until the time is over and every request has ended."""
        async with self.client:
            ways = [self._every(gap_s, n, self._chat(kind)) for n, (kind, gap_s) in enumerate(_GAPS_S.items())]
            ways += [
                self._every(_LEAVES_GAP_S, 11, self._leave),
                self._every(_NONSENSE_GAP_S, 12, self._malformed),
                self._every(_NAN_GAP_S, 13, self._nan),
                self._every(_KILL_GAP_S, 14, self._kill),
                self._hang(), self._vanish(), self._watch(),
            ]  # fmt: skip
            await asyncio.gather(*ways)
            await asyncio.gather(*self._tasks)

    async def _every(self, gap_s: float, number: int, do: Callable[[np.random.Generator], Awaitable[None]]) -> None:
        chance = np.random.default_rng((SEED, number))
        due_s = float(chance.exponential(gap_s))
        while due_s < self.seconds:
            await asyncio.sleep(max(0.0, due_s - self.now_s))
            task = asyncio.ensure_future(do(chance))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            due_s += float(chance.exponential(gap_s))

    def _body(self, kind: str, chance: np.random.Generator) -> dict[str, Any]:
        messages = self._queries[int(chance.integers(len(self._queries)))]
        return {"messages": list(messages), "max_tokens": _TOKENS[kind], "temperature": 0, "priority": kind}

    def _chat(self, kind: str) -> Callable[[np.random.Generator], Awaitable[None]]:
        async def one(chance: np.random.Generator) -> None:
            self.seen.calls.append(await call(self.client, kind, self._body(kind, chance), self.start_s))

        return one

    async def _leave(self, chance: np.random.Generator) -> None:
        body, pieces = self._body("normal", chance), int(chance.integers(0, 12))
        self.seen.calls.append(await call(self.client, "leaves", body, self.start_s, leave_after=pieces))

    async def _malformed(self, chance: np.random.Generator) -> None:
        self.seen.calls.append(await malformed(self.client, chance, self.start_s))

    async def _nan(self, chance: np.random.Generator) -> None:
        # Some reach the poisoned position while they are read, others while they are answered.
        text = "light " * (self._words + int(chance.integers(-40, 8)))
        body = {"messages": [{"role": "user", "content": text.strip()}], "max_tokens": 32, "temperature": 0}
        self.seen.calls.append(await call(self.client, "nan", body, self.start_s))

    async def _kill(self, chance: np.random.Generator) -> None:
        if engine := engine_of(self.server.pid):
            os.kill(engine, signal.SIGKILL)
            self.seen.kills += 1

    async def _hang(self) -> None:
        for share in (0.35, 0.7):
            await asyncio.sleep(max(0.0, share * self.seconds - self.now_s))
            if engine := engine_of(self.server.pid):
                os.kill(engine, signal.SIGSTOP)
                self.seen.hangs += 1

    async def _vanish(self) -> None:
        """The board's sensors are gone for a twentieth of the time, in its middle."""
        activity = Activity(accelerator=0.5, cpu=0.5)
        folder = FolderBoard(VirtualBoard(load_spec("rk3588")), self.board)
        alive = RealTime(folder, lambda: activity)
        alive.start()
        await asyncio.sleep(max(0.0, 0.5 * self.seconds - self.now_s))
        alive.stop()
        gone_s = self.now_s
        for path in self.board.glob("sys/class/thermal/thermal_zone*/temp"):
            path.unlink()
        await asyncio.sleep(self.seconds / 20)
        self.seen.sensor_gone_s = self.now_s - gone_s
        alive = RealTime(FolderBoard(folder.board, self.board), lambda: activity)
        alive.start()
        await asyncio.sleep(max(0.0, self.seconds - self.now_s))
        alive.stop()

    async def _watch(self) -> None:
        while self.now_s < self.seconds:
            engine = engine_of(self.server.pid)
            self.seen.rss_bytes.append((self.now_s, rss_bytes(self.server.pid), rss_bytes(engine) if engine else 0))
            await asyncio.sleep(2.0)


def engine_of(server: int) -> int | None:
    """The engine's process, a child of the server's."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{server}/task").iterdir():
            for child in (task / "children").read_text().split():
                if b"chipwise.engine.isolated" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return int(child)
    return None


def rss_bytes(process: int) -> int:
    """Resident memory of a process; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextlib.contextmanager
def serving(bundle: Path, board: Path, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The server's URL and process while it runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "chipwise.cli.main", "serve", str(bundle), *_OPTIONS, "--isolate"]
    command += ["--engine-timeout", "5", "--fallback", "resident", "--board", str(board), "--port", str(port)]
    with log.open("wb") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                    break
            if server.poll() is not None:
                raise SystemExit(f"error: the server ended:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)
        yield url, server
    finally:
        server.terminate()
        server.wait(60)


def words_to_poison(bundle: Path) -> int:
    """Words that fill the positions before the poisoned one."""
    tokenizer = open_bundle(bundle).tokenizer
    if tokenizer is None:
        raise SystemExit("error: the bundle has no tokenizer")
    few, more = (len(tokenizer.encode("light " * n)) for n in (20, 40))
    return _POISON_AT * 20 // (more - few)


def metric(url: str, name: str) -> int:
    """A counter, named as in the page of metrics; 0 if it has not counted yet."""
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.rsplit(" ", 1)[0] == name))


def window(calls: Sequence[Call], start_s: float, end_s: float) -> SoakWindow:
    """The interactive requests that were sent in a part of the run."""
    inside = [one for one in calls if one.kind == "interactive" and start_s <= one.sent_s < end_s]
    answered = [one for one in inside if one.ending == "answered"]
    return SoakWindow(
        start_s, end_s, len(answered),
        float(np.percentile([one.ttft_s or 0.0 for one in answered], 95)),
        float(np.percentile([one.duration_s for one in answered], 95)),
    )  # fmt: skip


def kind_of(name: str, calls: Sequence[Call]) -> SoakKind:
    """The calls of a kind, summed up."""
    own = [one for one in calls if one.kind == name]
    ttft = [one.ttft_s for one in own if one.ending == "answered" and one.ttft_s is not None]
    p50, p95 = (float(np.percentile(ttft, share)) if ttft else None for share in (50, 95))
    return SoakKind(
        name, len(own), dict(Counter(one.ending for one in own)), p50, p95, max(one.duration_s for one in own)
    )


def median_rss(seen: Watched, start_s: float, end_s: float, which: int) -> int:
    """Median resident memory in a part of the run; ``which`` is 1 for the server and 2 for the engine."""
    return int(statistics.median(one[which] for one in seen.rss_bytes if start_s <= one[0] < end_s and one[which]))


def other_texts(calls: Sequence[Call]) -> int:
    """Answers that are another text than the first answer to the same prompt."""
    reference: dict[str, str] = {}
    return sum(one.ending == "answered" and reference.setdefault(one.asked, one.text) != one.text for one in calls)


def main() -> int:
    """Run and save; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="chipwise serve under faults.")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long (20)")
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json", help="where the result goes")
    arguments = parser.parse_args()
    seconds, before = 60 * arguments.minutes, load_average()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        build = ["build", str(MODEL), "--target", "host", "--recipe", "w8a16", "--fallback", "fp32", "--cases", "32"]
        command = [sys.executable, "-m", "chipwise.cli.main", *build, "--output", str(place / "sound")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        bundle = poisoned(place / "sound", place / "poisoned", _POISON_AT)
        FolderBoard(VirtualBoard(load_spec("rk3588")), place / "board")
        with serving(bundle, place / "board", arguments.out.with_suffix(".log")) as (url, server):
            run = Run(url, server, place / "board", seconds, words_to_poison(bundle))
            asyncio.run(run.go())
            counts = [
                metric(url, name)
                for name in (
                    'chipwise_faults_total{kind="nan"}',
                    "chipwise_engine_restarts_total",
                    "chipwise_fallbacks_total",
                )
            ]
    calls, span = run.seen.calls, min(_WINDOW_S, seconds / 3)
    first = window(calls, min(_WARM_UP_S, seconds / 10), min(_WARM_UP_S, seconds / 10) + span)
    last = window(calls, seconds - span, seconds)
    names = list(dict.fromkeys(itertools.chain(_GAPS_S, ("leaves", "malformed", "nan"))))
    result = Soak(
        date=today(), cpu=look().cpu.model, load_averages=(before, load_average()), minutes=arguments.minutes,
        seed=SEED, model="The home-agent model, w8a16",
        options=" ".join((*_OPTIONS, "--isolate --engine-timeout 5 --fallback resident --board FOLDER")),
        kinds=tuple(kind_of(name, calls) for name in names if any(one.kind == name for one in calls)),
        kills=run.seen.kills, hangs=run.seen.hangs, sensor_gone_s=run.seen.sensor_gone_s,
        faults=counts[0], restarts=counts[1], fallbacks=counts[2], first=first, last=last,
        rss_first_bytes=median_rss(run.seen, first.start_s, first.end_s, 1),
        rss_last_bytes=median_rss(run.seen, last.start_s, last.end_s, 1),
        engine_rss_last_bytes=median_rss(run.seen, last.start_s, last.end_s, 2),
        lost=sum(one.ending == "lost" for one in calls), other_texts=other_texts(calls),
    )  # fmt: skip
    save(result, arguments.out)
    for one in calls:
        if one.ending in ("lost", "error") or (one.ending == "refused" and one.kind != "malformed"):
            print(f"{one.sent_s:7.1f} s {one.kind}: {one.ending} {one.status} {one.said}")
    changes = f"memory {result.memory_growth:+.1%}; p95 {result.latency_change:+.1%}"
    print(f"{len(calls)} requests, {result.lost} lost; {changes}")
    met = not result.lost and result.memory_growth <= MEMORY_GOAL and result.latency_change <= LATENCY_GOAL
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
