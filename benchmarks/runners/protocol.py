"""What every runner speaks: a job as JSON on the first line of stdin, then a round for each further line.

A line that is a JSON object asks for the logits at an answer's tokens instead. A runner lives in its contestant's own
environment, so this file imports nothing but the standard library. Stdout carries one JSON object a line: ``ready``
when the model is open, a round's times, and at the end the peak memory.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Job:
    """What to run.

    Attributes:
        model: The model's file or folder, in the contestant's own format.
        prompt: The prompt's token ids.
        new_tokens: Tokens to decode after the first.
        context: Tokens the KV cache must hold.
        threads: Threads of the engine.
    """

    model: str
    prompt: list[int]
    new_tokens: int
    context: int
    threads: int


class OpenModel(Protocol):
    """A model opened in an engine."""

    def reset(self) -> None:
        """Empty the KV cache. Not timed."""

    def prefill(self) -> int:
        """Read the prompt; returns the most likely next token."""

    def decode(self, token: int, count: int) -> list[int]:
        """Feed a token and what follows greedily, ``count`` steps in all; returns what followed."""

    def follow(self, prompt: list[int], answer: list[int]) -> Any:
        """The logits ``[len(answer), vocab]`` that predict each token of an answer, a numpy array."""


def serve(open_model: Callable[[Job], OpenModel], packages: tuple[str, ...]) -> None:
    """Open the job's model and run rounds until stdin ends."""
    out = _claim_stdout()
    job = Job(**json.loads(sys.stdin.readline()))
    start = time.perf_counter()
    contestant = open_model(job)
    versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    _say(out, {"open_s": time.perf_counter() - start, "versions": versions})
    gc.disable()  # a collection inside a timed phase would be noise
    for line in sys.stdin:
        _say(out, _follow(contestant, json.loads(line)) if line.startswith("{") else _round(contestant, job))
    _say(out, {"peak_bytes": peak_bytes()})


def peak_bytes() -> int:
    """The largest resident set of this process so far, mapped files included: VmHWM of Linux."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")


def _follow(contestant: OpenModel, asked: dict[str, Any]) -> dict[str, Any]:
    """Write the logits at each token of an answer to the file that was asked for."""
    contestant.reset()
    logits = contestant.follow(asked["prompt"], asked["answer"])
    Path(asked["out"]).write_bytes(logits.astype("<f4").tobytes())
    return {"shape": list(logits.shape)}


def _round(contestant: OpenModel, job: Job) -> dict[str, Any]:
    contestant.reset()
    gc.collect()
    start = time.perf_counter()
    token = contestant.prefill()
    middle = time.perf_counter()
    tokens = contestant.decode(token, job.new_tokens)
    end = time.perf_counter()
    return {"prefill_s": middle - start, "decode_s": end - middle, "tokens": [token, *tokens]}


def _claim_stdout() -> Any:
    """Keep stdout for JSON: what libraries print goes to stderr, from C too."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _say(out: Any, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()
