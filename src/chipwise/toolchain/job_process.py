"""JobProcess: a job's process, what it says it did, and every way in which that cannot be believed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chipwise.errors import InputError, ToolchainError
from chipwise.files import read_bounded, writing
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.job_spec import Job, JobResult
from chipwise.toolchain.log import NewLines, joined, shortened, tail, telling
from chipwise.toolchain.process import Ended, clean_environment, run_process
from chipwise.toolchain.runners import JOB_MAIN

_MAX_RESULT_BYTES = 64 << 20
# File systems round times to as much as two seconds (FAT).
_CLOCK_SLACK_S = 2.0


class JobProcess:
    """A job's process and what it leaves in its folder.

    Args:
        folder: The job's own folder, empty.
        environment: The toolchain.
        job: What it is to do.
    """

    def __init__(self, folder: Path, environment: Environment, job: Job) -> None:
        self.folder = folder
        self.stdout, self.stderr = folder / "stdout.log", folder / "stderr.log"
        self._environment, self._job = environment, job
        self._token = secrets.token_hex(16)
        self._started = time.time()
        _write_request(folder, job, self._token)
        with writing(folder):
            # What the tool puts into the temporary folder goes with the job's.
            (folder / "tmp").mkdir()

    def run(
        self,
        on_step: Callable[[str], None] = lambda step: None,
        *,
        pass_fds: Sequence[int] = (),
        on_start: Callable[[int], None] = lambda pid: None,
    ) -> Ended:
        """Run it to its end; see ``run_process``."""
        steps = NewLines(self.folder / "steps.txt")

        def tell() -> None:
            for step in steps.read():
                on_step(step)

        runner = str(self._job.runner or self._environment.spec.runner)
        self._started = time.time()
        return run_process(
            [str(self._environment.python), "-I", "-u", str(JOB_MAIN), runner], folder=self.folder,
            stdout=self.stdout, stderr=self.stderr,
            env={**clean_environment(), "TMPDIR": str(self.folder / "tmp")}, timeout_s=self._job.timeout_s,
            max_log_bytes=self._job.max_log_bytes, on_poll=tell, pass_fds=pass_fds, on_start=on_start,
        )  # fmt: skip

    @property
    def ran_s(self) -> float:
        """Seconds since it was started."""
        return time.time() - self._started

    def stop(self, pid: int) -> None:
        """Kill the process and its group, if they are still there."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def require_good_end(self, ended: Ended) -> None:
        """Refuse a process that was stopped, killed or aborted, whatever its result says.

        Raises:
            ToolchainError: It was.
        """
        if ended.stopped is not None:
            raise self.failure(f"the job {ended.stopped}")
        answered = self._path.is_file()
        if not answered or ended.status not in (0, 1):
            raise self.failure(f"the job {_status(ended.status)}")
        if ended.status == 1 and self._answer().get("ok") is True:
            raise self.failure(f"the job {_status(ended.status)} although it says it is done")

    def result(self, duration_s: float, peak_bytes: int) -> JobResult:
        """What it says it did, and the files that it must have written.

        Raises:
            ToolchainError: It failed, or what it left cannot be believed.
        """
        answer = self._answer()
        if answer.get("ok") is not True:
            raise self._reported(str(answer.get("what")), answer.get("step"))
        names = answer.get("artifacts")
        if not isinstance(answer.get("values"), dict) or not isinstance(names, list) or not all(
            isinstance(name, str) for name in names
        ):  # fmt: skip
            raise self.failure("the job's result.json lacks values or artifacts")
        wanted = dict.fromkeys([*self._job.artifacts, *names])
        artifacts = {name: _artifact(self.folder, name, self._started, self.failure) for name in wanted}
        return JobResult(answer["values"], artifacts, self.folder, self.stdout, self.stderr, duration_s, peak_bytes)

    def failure(self, what: str) -> ToolchainError:
        """The error of a job that ended badly: only its log can say why."""
        log = self._log()
        why = telling(log, self._environment.spec.error_line) or log
        last_step = " ".join(tail(self.folder / "steps.txt", 1))
        return self._error(f"{what}; its log ends: {joined(why)}" if why else f"{what}; it wrote no log", last_step)

    @property
    def _path(self) -> Path:
        return self.folder / "result.json"

    def _answer(self) -> dict[str, Any]:
        try:
            answer = json.loads(read_bounded(self._path, _MAX_RESULT_BYTES))
        except (ValueError, RecursionError, InputError) as e:
            raise self.failure(f"the job's result.json cannot be read ({e})") from e
        if not isinstance(answer, dict) or answer.get("token") != self._token:
            raise self.failure("the job's result.json is not of this job")
        return answer

    def _log(self) -> tuple[str, ...]:
        return tail(self.stdout) + tail(self.stderr)

    def _reported(self, what: str, step: str | None) -> ToolchainError:
        """The runner itself says what failed; the log's error lines may say more."""
        why = joined(telling(self._log(), self._environment.spec.error_line))
        return self._error(f"failed: {shortened(what)}{f'; its log says: {why}' if why else ''}", step)

    def _error(self, what: str, step: str | None) -> ToolchainError:
        where = " ".join(filter(None, (self._environment.spec.name, self._job.action, step)))
        return ToolchainError(what, where=where, log_tail=self._log())


def _write_request(folder: Path, job: Job, token: str) -> None:
    files = {}
    for name, path in job.files.items():
        if not path.is_file():
            raise InputError("no such file", where=str(path))
        files[name] = str(path.absolute())
    with writing(folder):
        for name, arrays in job.arrays.items():
            files[name] = str(folder / f"{name}.npz")
            np.savez(files[name], *arrays)
        request = {"token": token, "action": job.action, "values": dict(job.values), "files": files}
        (folder / "request.json").write_text(json.dumps(request), "utf-8")


def _status(status: int) -> str:
    if status == 0:
        return "ended with status 0 but left no result"
    number = -status if status < 0 else status - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with status {status}"
    memory = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"was ended by {name}{memory}, status {number + 128}"


def _artifact(folder: Path, name: str, started: float, fail: Callable[[str], ToolchainError]) -> Path:
    """The file of that name, if this job wrote it."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts or path.is_symlink():
        raise fail(f"the artifact {name} lies outside the job's folder")
    if not path.is_file():
        raise fail(f"the job says it is done but wrote no {name}")
    stat = path.stat()
    if stat.st_size == 0:
        raise fail(f"the job says it is done but its {name} is empty")
    if math.ceil(stat.st_mtime) < started - _CLOCK_SLACK_S or stat.st_nlink > 1:
        raise fail(f"the artifact {name} is older than the job")
    return path
