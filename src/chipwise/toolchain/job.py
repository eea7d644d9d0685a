"""run_job: JSON and files in, JSON and files out, in a fresh folder; believes an artifact, not an exit status."""

from __future__ import annotations

import json
import math
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.errors import InputError, ToolchainError
from chipwise.files import read_bounded, writing
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.log import NewLines, joined, shortened, tail, telling
from chipwise.toolchain.process import Ended, clean_environment, run_process
from chipwise.toolchain.runners import JOB_MAIN

_MAX_RESULT_BYTES = 64 << 20
_MAX_LOG_BYTES = 2 << 30
# File systems round times to as much as two seconds (FAT).
_CLOCK_SLACK_S = 2.0


@dataclass(frozen=True)
class Job:
    """What a toolchain is asked to do.

    Attributes:
        action: The runner's function.
        values: JSON for it.
        files: Its input files by name; read where they lie.
        arrays: More input files by name, written as NAME.npz: unnamed arrays in order.
        artifacts: Names of files that it must write, or it has failed.
        timeout_s: It is stopped after this many seconds.
        runner: The script that holds the action; the toolchain's own if None.
        max_log_bytes: It is stopped when it writes more than this.
    """

    action: str
    values: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    arrays: Mapping[str, Sequence[npt.NDArray[Any]]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    timeout_s: float = 3600.0
    runner: Path | None = None
    max_log_bytes: int = _MAX_LOG_BYTES


@dataclass(frozen=True)
class JobResult:
    """What came of a job; its files are gone when the ``with`` block ends, unless they were to be kept.

    Attributes:
        values: JSON from the runner.
        artifacts: The files that this job wrote, by name.
        folder: The job's folder.
        stdout: File with all that went to C file descriptor 1.
        stderr: File with all that went to descriptor 2.
        duration_s: How long it ran, in seconds.
        peak_bytes: Most memory of all its processes at once, in bytes.
    """

    values: dict[str, Any]
    artifacts: dict[str, Path]
    folder: Path
    stdout: Path
    stderr: Path
    duration_s: float
    peak_bytes: int


@contextmanager
def run_job(
    environment: Environment, job: Job, *, keep: Path | None = None, on_step: Callable[[str], None] = lambda step: None
) -> Iterator[JobResult]:
    """Run a job in a toolchain's environment.

    Args:
        environment: An installed toolchain.
        job: What it is to do.
        keep: Folder in which the job's own folder is made and stays, also after a failure.
        on_step: Hears each step that the job begins.

    Raises:
        DependencyError: The toolchain is not installed.
        InputError: An input file is missing.
        OutputError: The disk is full or not writable.
        ToolchainError: The job failed, hung, aborted, was killed, or did not write what it must.
    """
    environment.require_ready()
    with job_folder(environment, job, keep) as folder:
        yield run_in(folder, environment, job, on_step)


@contextmanager
def job_folder(environment: Environment, job: Job, keep: Path | None) -> Iterator[Path]:
    """A fresh folder for one job, removed afterwards unless ``keep`` says where it stays."""
    name = f"{environment.spec.name}-{job.action}-"
    if keep is not None:
        with writing(keep):
            keep.mkdir(parents=True, exist_ok=True)
            folder = Path(mkdtemp(prefix=name, dir=keep)).absolute()
        yield folder
        return
    folder = Path(mkdtemp(prefix=f"chipwise-{name}"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in(
    folder: Path, environment: Environment, job: Job, on_step: Callable[[str], None] = lambda step: None
) -> JobResult:
    """Run a job in an empty folder, whatever state the environment is in; see ``run_job``."""
    token = secrets.token_hex(16)
    _write_request(folder, job, token)
    stdout, stderr = folder / "stdout.log", folder / "stderr.log"
    with writing(folder):
        # What the tool puts into the temporary folder goes with the job's.
        temporary = folder / "tmp"
        temporary.mkdir()
    steps = NewLines(folder / "steps.txt")

    def tell() -> None:
        for step in steps.read():
            on_step(step)

    started = time.time()
    argv = [str(environment.python), "-I", "-u", str(JOB_MAIN), str(job.runner or environment.spec.runner)]
    ended = run_process(
        argv, folder=folder, stdout=stdout, stderr=stderr, env={**clean_environment(), "TMPDIR": str(temporary)},
        timeout_s=job.timeout_s, max_log_bytes=job.max_log_bytes, on_poll=tell,
    )  # fmt: skip
    fail = _Failure(environment, job, ended, tail(stdout) + tail(stderr), tail(folder / "steps.txt", 1))
    result = _read_result(folder / "result.json", token, fail)
    names = dict.fromkeys([*job.artifacts, *result["artifacts"]])
    artifacts = {name: _artifact(folder, name, started, fail) for name in names}
    return JobResult(result["values"], artifacts, folder, stdout, stderr, ended.duration_s, ended.peak_bytes)


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


@dataclass(frozen=True)
class _Failure:
    """Makes the error for what went wrong with a job."""

    environment: Environment
    job: Job
    ended: Ended
    log: tuple[str, ...]
    last_step: tuple[str, ...]

    def __call__(self, what: str) -> ToolchainError:
        """The job ended badly, and only its log can say why."""
        why = telling(self.log, self.environment.spec.error_line) or self.log
        return self._error(
            f"{what}; its log ends: {joined(why)}" if why else f"{what}; it wrote no log", " ".join(self.last_step)
        )

    def reported(self, what: str, step: str | None) -> ToolchainError:
        """The runner itself says what failed; the log's error lines may say more."""
        why = joined(telling(self.log, self.environment.spec.error_line))
        return self._error(f"failed: {shortened(what)}{f'; its log says: {why}' if why else ''}", step)

    def _error(self, what: str, step: str | None) -> ToolchainError:
        where = " ".join(filter(None, (self.environment.spec.name, self.job.action, step)))
        return ToolchainError(what, where=where, log_tail=self.log)


def _read_result(path: Path, token: str, fail: _Failure) -> dict[str, Any]:
    ended = fail.ended
    if ended.stopped is not None:
        raise fail(f"the job {ended.stopped}")
    if not path.is_file() or ended.status not in (0, 1):
        raise fail(f"the job {_status(ended.status)}")
    try:
        result = json.loads(read_bounded(path, _MAX_RESULT_BYTES))
    except (ValueError, RecursionError, InputError) as e:
        raise fail(f"the job's result.json cannot be read ({e})") from e
    if not isinstance(result, dict) or result.get("token") != token:
        raise fail("the job's result.json is not of this job")
    if result.get("ok") is not True:
        raise fail.reported(str(result.get("what")), result.get("step"))
    names = result.get("artifacts")
    if not isinstance(result.get("values"), dict) or not isinstance(names, list) or not all(
        isinstance(name, str) for name in names
    ):  # fmt: skip
        raise fail("the job's result.json lacks values or artifacts")
    if ended.status != 0:
        raise fail(f"the job {_status(ended.status)} although it says it is done")
    return result


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


def _artifact(folder: Path, name: str, started: float, fail: _Failure) -> Path:
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
