"""Servers under test: each in a process of its own, asked over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks import llama_server

CONTEXT = 1024
_READY_S = 300.0


@dataclass(frozen=True)
class Server:
    """A server and how it is started.

    Attributes:
        name: Its key in the results.
        title: Its name for people.
        model: Its model.
        options: Further options of its command.
    """

    name: str
    title: str
    model: Path
    options: tuple[str, ...] = ()

    def command(self, slots: int, urgent: int, threads: int, port: int) -> list[str]:
        """The command for so many requests at once, and some more if they are urgent."""
        if self.name == "chipwise":
            command = [sys.executable, "-m", "chipwise.cli.main", "serve", str(self.model), "--slots", str(slots)]
            command += ["--reserve", str(urgent), "--parking", "1", "--context", str(CONTEXT)]
            return [*command, "--threads", str(threads), "--port", str(port), *self.options]
        # It knows no priorities: a place for the urgent is a place for all, and nothing has to give way.
        places = slots + urgent
        command = [str(llama_server.place() / "llama-server"), "-m", str(self.model), "--parallel", str(places)]
        command += ["--ctx-size", str(CONTEXT * places), "--threads", str(threads), "--threads-batch", str(threads)]
        return [*command, "--host", "127.0.0.1", "--port", str(port), *self.options]

    @contextmanager
    def running(self, slots: int, urgent: int = 0, *, threads: int) -> Iterator[str]:
        """The server's base URL while it runs."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            self.command(slots, urgent, threads, port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(process, url, self.title)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, title: str) -> None:
    end_s = time.monotonic() + _READY_S
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise SystemExit(f"error: {title} ended with code {process.returncode} instead of serving")
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"error: {title} was not ready within {_READY_S:.0f} s")
