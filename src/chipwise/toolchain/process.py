"""run_process: one command in a session of its own: bounded in time and output, measured, and wholly ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from chipwise.errors import ToolchainError
from chipwise.files import writing

_POLL_S = 0.02
_SLOWEST_POLL_S = 0.25
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# What points Python or pip at another environment; a toolchain must see nothing of ours, nor change it.
_FOREIGN = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSTARTUP", "PYTHONUSERBASE", "__PYVENV_LAUNCHER__"}
_FOREIGN |= {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON"}


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: Its exit status; negative: the signal that ended it.
        stopped: Why it was stopped before its own end, None if it was not.
        duration_s: How long it ran, in seconds.
        peak_bytes: Most memory that its processes held at once: the sum of their resident sets, sampled, and at
            least the largest moment of the first one (VmHWM) as of the last sample. What the kernel tells a parent
            (ru_maxrss) counts the parent's own memory before the program was started, so it is no use.
    """

    status: int
    stopped: str | None
    duration_s: float
    peak_bytes: int


def clean_environment() -> dict[str, str]:
    """Our environment variables without those that lead Python or pip elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**kept, "PYTHONNOUSERSITE": "1"}


def run_process(
    argv: Sequence[str],
    *,
    folder: Path,
    stdout: Path,
    stderr: Path | None = None,
    timeout_s: float,
    max_log_bytes: int,
    env: Mapping[str, str] | None = None,
    on_poll: Callable[[], None] = lambda: None,
    pass_fds: Sequence[int] = (),
    on_start: Callable[[int], None] = lambda pid: None,
) -> Ended:
    """Run a command to its end, or stop it; every process of its session is gone afterwards.

    Its standard input is a pipe that closes when we end, however that happens.

    Args:
        argv: The command.
        folder: Its working folder.
        stdout: File that takes its C file descriptor 1.
        stderr: File that takes descriptor 2; the same as ``stdout`` if None.
        timeout_s: It is stopped after this many seconds.
        max_log_bytes: It is stopped when it has written more than this to both files.
        env: Environment variables, ``clean_environment()`` if None.
        on_poll: Called some times a second while it runs.
        pass_fds: File descriptors that it inherits, under the same numbers.
        on_start: Told its process number once it runs.

    Raises:
        ToolchainError: The command cannot be started.
        OutputError: A log file cannot be written.
    """
    start = time.monotonic()
    logs = [stdout] if stderr is None else [stdout, stderr]
    with writing(stdout), stdout.open("ab") as out, (stderr or stdout).open("ab") as err:
        process = _start(argv, folder, out, err, env, pass_fds)
    peak_bytes, stopped, poll_s = 0, None, _POLL_S
    try:
        on_start(process.pid)
        # Not reaped yet, so its number and its group's stay taken until the group is killed.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            peak_bytes = max(peak_bytes, session_bytes(process.pid), largest_bytes(process.pid))
            stopped = _excess(logs, time.monotonic() - start, timeout_s, max_log_bytes)
            if stopped:
                break
            on_poll()
            time.sleep(poll_s)
            poll_s = min(poll_s * 1.2, _SLOWEST_POLL_S)
    finally:
        _kill_session(process.pid)
        _, wait_status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        if process.stdin is not None:
            process.stdin.close()
    on_poll()
    return Ended(process.returncode, stopped, time.monotonic() - start, peak_bytes)


def _start(
    argv: Sequence[str],
    folder: Path,
    out: IO[bytes],
    err: IO[bytes],
    env: Mapping[str, str] | None,
    pass_fds: Sequence[int],
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=err,
            env=clean_environment() if env is None else env, start_new_session=True, pass_fds=pass_fds,
        )  # fmt: skip
    except OSError as e:
        raise ToolchainError(f"does not start ({e.strerror or e})", where=argv[0]) from e


def largest_bytes(pid: int) -> int:
    """The largest resident set a process has had, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmHWM:")), 0)


def session_bytes(session: int) -> int:
    """Resident memory of all processes of a session, in bytes; pages they share count once for each."""
    pages = 0
    for pid in _session(session):
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        except (OSError, IndexError):
            continue  # it ended between being listed and being read
    return pages * _PAGE_BYTES


def _session(session: int) -> list[int]:
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                stat = Path(f"/proc/{entry}/stat").read_bytes()
            except OSError:
                continue  # as above
            # pid (name) state ppid pgrp session: the name may hold spaces and brackets.
            if int(stat.rpartition(b")")[2].split()[3]) == session:
                members.append(int(entry))
    return members


def _kill_session(session: int) -> None:
    """Kill the group at once, then whatever made a group of its own within the session."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return  # the leader always holds it until it is reaped, but for a kernel that says otherwise
    for pid in _session(session):
        if pid != session:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _excess(logs: Sequence[Path], ran_s: float, timeout_s: float, max_log_bytes: int) -> str | None:
    if ran_s > timeout_s:
        return f"was stopped after {timeout_s:g} s"
    if sum(log.stat().st_size for log in logs) > max_log_bytes:
        return f"was stopped after writing more than {max_log_bytes} bytes of log"
    return None
