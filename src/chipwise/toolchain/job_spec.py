"""Job and JobResult: what a toolchain is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

_MAX_LOG_BYTES = 2 << 30


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
