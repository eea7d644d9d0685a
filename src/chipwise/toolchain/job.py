"""run_job: JSON and files in, JSON and files out, in a fresh folder; believes an artifact, not an exit status."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from chipwise.files import writing
from chipwise.toolchain.environment import Environment
from chipwise.toolchain.job_process import JobProcess
from chipwise.toolchain.job_spec import Job, JobResult


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
    process = JobProcess(folder, environment, job)
    ended = process.run(on_step)
    process.require_good_end(ended)
    return process.result(ended.duration_s, ended.peak_bytes)
