"""open_job: a job that goes on answering after its result, such as a simulator that lives in the process that built."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.errors import ChipwiseError
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.job import job_folder
from chipwise.toolchain.job_process import JobProcess
from chipwise.toolchain.job_spec import Job, JobResult
from chipwise.toolchain.process import Ended, largest_bytes

Arrays = Sequence[npt.NDArray[Any]]

_ANSWER_TIMEOUT_S = 600.0
_END_TIMEOUT_S = 30.0
_MAX_HEADER_BYTES = 1 << 20


class LiveJob:
    """A job whose result is there and whose process answers calls. Not thread-safe.

    Attributes:
        result: What the job made; its duration is that until the result was there, its memory the most until then.
    """

    def __init__(self, result: JobResult, link: Connection, process: JobProcess) -> None:
        self.result = result
        self._link, self._process = link, process

    def call(self, inputs: Arrays) -> list[npt.NDArray[Any]]:
        """Hand arrays over and wait for those that come back.

        Raises:
            ToolchainError: The process reports a failure, ended, hangs, or answers what cannot be read.
        """
        try:
            _send(self._link, inputs)
            if not self._link.poll(_ANSWER_TIMEOUT_S):
                raise self._process.failure(f"no answer within {_ANSWER_TIMEOUT_S:g} s")
            return self._receive()
        except (OSError, EOFError) as e:
            raise self._process.failure("the job ended while it was asked") from e

    def _receive(self) -> list[npt.NDArray[Any]]:
        header = self._link.recv_bytes(_MAX_HEADER_BYTES)
        try:
            answer = json.loads(header)
            if "what" in answer:
                raise self._process.failure(f"failed: {answer['what']}")
            return [
                np.frombuffer(self._link.recv_bytes(), np.dtype(str(one["dtype"]))).reshape(one["shape"])
                for one in answer["arrays"]
            ]
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise self._process.failure(f"its answer cannot be read ({e})") from e


@contextmanager
def open_job(
    environment: Environment, job: Job, *, keep: Path | None = None, on_step: Callable[[str], None] = lambda step: None
) -> Iterator[LiveJob]:
    """Run a job whose runner stays, and let it answer until the block ends; then its process ends too.

    Its ``timeout_s`` is that until the result is there.

    Args:
        environment: An installed toolchain.
        job: What it is to do; its action must return a ``then`` that answers.
        keep: Folder in which the job's own folder is made and stays.
        on_step: Hears each step that the job begins; from another thread.

    Raises:
        DependencyError: The toolchain is not installed.
        InputError: An input file is missing.
        OutputError: The disk is full or not writable.
        ToolchainError: The job failed, hung, aborted, was killed, or did not write what it must.
    """
    environment.require_ready()
    with job_folder(environment, job, keep) as folder:
        ours, theirs = socket.socketpair()
        values = {**job.values, "link": theirs.fileno()}
        # The process may live as long as it is asked; what is timed is the way to its result, below.
        running = _Running(JobProcess(folder, environment, replace(job, values=values, timeout_s=float("inf"))))
        link = Connection(ours.detach())
        try:
            running.start(on_step, theirs)
            yield LiveJob(running.wait(link, job.timeout_s), link, running.process)
        except BaseException:
            # Nobody will ask any more, as after Ctrl-C: what it still does, minutes of a build, is for nothing.
            running.kill()
            raise
        finally:
            link.close()
            running.end()


class _Running:
    """The process, and the thread that watches it."""

    def __init__(self, process: JobProcess) -> None:
        self.process = process
        self._ended: Ended | ChipwiseError | None = None
        self._pid = 0
        self._thread: threading.Thread | None = None

    def start(self, on_step: Callable[[str], None], theirs: socket.socket) -> None:
        def started(pid: int) -> None:
            self._pid = pid
            # From now on the end of the process ends the link.
            theirs.close()

        def watch() -> None:
            try:
                self._ended = self.process.run(on_step, pass_fds=(theirs.fileno(),), on_start=started)
            except ChipwiseError as e:
                self._ended = e
            finally:
                theirs.close()

        self._thread = threading.Thread(target=watch, daemon=True)
        self._thread.start()

    def wait(self, link: Connection, timeout_s: float) -> JobResult:
        """Until the process says that its result is written."""
        if not link.poll(timeout_s):
            self.kill()
            raise self.process.failure(f"the job was stopped after {timeout_s:g} s")
        try:
            link.recv_bytes(_MAX_HEADER_BYTES)
        except (EOFError, OSError) as e:
            self.end()
            if isinstance(self._ended, ChipwiseError):
                raise self._ended from e
            if self._ended is not None:
                self.process.require_good_end(self._ended)
                self.process.result(self._ended.duration_s, self._ended.peak_bytes)
            raise self.process.failure("the job ended before it could be asked") from e
        return self.process.result(self.process.ran_s, largest_bytes(self._pid))

    def end(self) -> None:
        """Wait for the process, whose link is closed, to end; kill it if it does not."""
        if self._thread is not None:
            self._thread.join(_END_TIMEOUT_S)
            if self._thread.is_alive():
                self.kill()
                self._thread.join()

    def kill(self) -> None:
        """Stop the process. One that has ended is left alone: its number may be another's by now."""
        if self._pid and self._thread is not None and self._thread.is_alive():
            self.process.stop(self._pid)


def _send(link: Connection, arrays: Arrays) -> None:
    held = [np.ascontiguousarray(array) for array in arrays]
    header = {"arrays": [{"dtype": array.dtype.str, "shape": array.shape} for array in held]}
    link.send_bytes(json.dumps(header).encode())
    for array in held:
        link.send_bytes(array.tobytes())
