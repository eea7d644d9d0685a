"""How a process ended, in words."""

from __future__ import annotations

import signal
from pathlib import Path

_VMSTAT = Path("/proc/vmstat")

_WORDS = {
    "SIGSEGV": "a segmentation fault",
    "SIGBUS": "a bus error",
    "SIGABRT": "it aborted itself",
    "SIGILL": "an instruction that this processor does not have",
    "SIGFPE": "an arithmetic error",
    "SIGKILL": "killed from outside",
    "SIGTERM": "told to end from outside",
}


def in_words(status: int, *, out_of_memory: bool) -> str:
    """What an exit status says.

    Args:
        status: The status; negative: the signal that ended it.
        out_of_memory: Whether the kernel has killed for want of memory since it began.
    """
    if status >= 0:
        return (
            f"its process ended by itself with status {status}"
            if status < 256
            else "its process ended, nobody knows how"
        )
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"its process was ended by signal {-status}"
    if name == "SIGKILL" and out_of_memory:
        return "its process was killed by the kernel, since memory ran out (SIGKILL)"
    return f"its process ended: {_WORDS.get(name, 'a signal')} ({name})"


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 if it does not say."""
    try:
        lines = _VMSTAT.read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
