"""Contestant: an engine with a model, run in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from benchmarks.runners.protocol import Job
from benchmarks.traffic import Traffic

RUNNERS = Path(__file__).parent / "runners"


@dataclass(frozen=True)
class Contestant:
    """An engine, its model and how it is started.

    Attributes:
        name: Its key in the results: ``chipwise``, ``genai`` or ``llamacpp``.
        title: Its name for people, with the precision.
        python: The interpreter of its environment.
        model: Its model's file or folder.
        traffic: Bytes a decoded token reads.
    """

    name: str
    title: str
    python: Path
    model: Path
    traffic: Traffic

    def command(self) -> list[str]:
        """The command that starts its runner."""
        return [str(self.python), str(RUNNERS / f"{self.name}_runner.py")]


class RunnerError(Exception):
    """A runner died or said something else than it should."""


class Runner:
    """A runner's process; see ``runners/protocol.py``."""

    def __init__(self, command: list[str], job: Job) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._command = " ".join(command)
        try:
            self.ready = self._ask(json.dumps(asdict(job)))
        except BaseException:
            self.kill()
            raise

    def round(self) -> dict[str, Any]:
        """One round: prefill and decode."""
        return self._ask("round")

    def follow(self, prompt: Sequence[int], answer: Sequence[int], out: Path) -> npt.NDArray[np.float32]:
        """The logits ``[len(answer), vocab]`` at each token of an answer; ``out`` is a file to pass them in."""
        asked = self._ask(json.dumps({"prompt": list(prompt), "answer": list(answer), "out": str(out)}))
        return np.fromfile(out, np.float32).reshape(asked["shape"])

    def finish(self) -> dict[str, Any]:
        """The process's peak memory; it ends."""
        self._stream(self._process.stdin).close()
        with self._process:  # closes the pipes and waits
            return self._answer()

    def kill(self) -> None:
        """End the process whatever it does."""
        with self._process:
            self._process.kill()

    def _ask(self, line: str) -> dict[str, Any]:
        stream = self._stream(self._process.stdin)
        try:
            stream.write(line + "\n")
            stream.flush()
        except BrokenPipeError as e:
            raise RunnerError(f"{self._command} ended early, see above") from e
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._stream(self._process.stdout).readline()
        if not line:
            raise RunnerError(f"{self._command} ended with code {self._process.wait()}, see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        if stream is None:
            raise RunnerError("a runner without pipes")
        return stream
