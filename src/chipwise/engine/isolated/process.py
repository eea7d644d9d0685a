"""EngineProcess: a child process with an end of the wire, whose last words and whose end are known."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress

from chipwise.engine.isolated.ending import in_words, oom_kills
from chipwise.engine.isolated.shared import SharedMemory
from chipwise.engine.isolated.wire import wire
from chipwise.errors import EngineError, EngineLostError

_WORKER = "chipwise.engine.isolated.worker"
_KEPT_LINES = 40
_TOLD_LINES = 3
_MAX_LINE_BYTES = 4096
_MAX_TOLD = 400
# A killed process is gone at once, unless a driver holds it in the kernel.
_END_S = 5.0
# As exit statuses go it is none.
_UNKNOWN_STATUS = 256

_logger = logging.getLogger(__name__)


class EngineProcess:
    """A worker in a session of its own. To be started by a thread that outlives it: it dies with that thread.

    Attributes:
        control: Our end of the wire.
        memory: What both map, for steps.
        kv: Likewise, for KV that is taken out or put back: logits stay as they are meanwhile.
        ended: Set once it is gone, and all that it said is known.

    Raises:
        EngineError: It cannot be started, or the system has no such memory. Nothing of it is left.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._stopped: str | None = None
        self._reaped = False
        self._oom_kills = oom_kills()
        self.started_s = time.monotonic()
        self._reader = threading.Thread(target=self._read, name="chipwise-engine-output", daemon=True)
        with ExitStack() as made:
            try:
                self._make(made)
            except (OSError, RuntimeError) as e:
                # Descriptors, processes or threads have run out, or are forbidden.
                reason = getattr(e, "strerror", None) or e
                raise EngineError(f"a process for the engine cannot be started ({reason})") from e
            made.pop_all()

    @property
    def pid(self) -> int:
        """Its number, and its group's."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has neither ended nor been told to."""
        return not self.ended.is_set() and self._stopped is None

    def kill(self, why: str) -> None:
        """End it and all it has started, now.

        Args:
            why: What is said of it, e.g. "a step took longer than 30 s".
        """
        with self._lock:
            if self._stopped is None and not self._reaped:
                self._stopped = why
            self._kill_group()

    def dispose(self) -> None:
        """Close what led to it. For the one that asks it: a descriptor that is in use must not become another's."""
        self.control.close()
        self.memory.close()
        self.kv.close()

    def loss(self) -> EngineLostError:
        """What became of it, for those whose requests it held. It must have been killed, or have closed the wire."""
        if not self.ended.wait(_END_S):
            self.kill("its process closed its connection")
            self.ended.wait(_END_S)
        if self._stopped is not None:
            what = self._stopped
        elif self.ended.is_set():
            what = in_words(self._process.returncode, out_of_memory=oom_kills() > self._oom_kills)
        else:
            what = "its process cannot be ended: a driver holds it in the kernel"
        lines = [line for line in list(self._lines) if line][-_TOLD_LINES:]
        said = " / ".join(lines)[-_MAX_TOLD:]
        return EngineLostError(f"the engine was lost: {what}" + (f"; it said last: {said}" if said else ""))

    def _make(self, made: ExitStack) -> None:
        """Start it; what takes back what was made is put on the stack."""
        self.memory = SharedMemory.create()
        made.callback(self.memory.close)
        self.kv = SharedMemory.create()
        made.callback(self.kv.close)
        self.control, theirs = wire()
        made.callback(self.control.close)
        with theirs:
            inherited = (theirs.fileno(), self.memory.descriptor, self.kv.descriptor)
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", _WORKER, *map(str, inherited), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=inherited, start_new_session=True,
            )  # fmt: skip
        made.callback(self._abandon)
        self._reader.start()
        threading.Thread(target=self._bury, name="chipwise-engine-end", daemon=True).start()

    def _abandon(self) -> None:
        """End one that has no thread to bury it."""
        self._kill_group()
        # One that a driver holds in the kernel ends when that lets go of it.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        if self._reader.ident is not None:
            # It reads to the end, and closes what it reads.
            self._reader.join(_END_S)
        elif self._process.stdout is not None:
            self._process.stdout.close()

    def _bury(self) -> None:
        """Wait for its end, and clear away what is left of it."""
        try:
            # Not reaped yet, so its number and its group's stay taken until the group is killed.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            with self._lock:
                self._kill_group()
                _, status = os.waitpid(self.pid, 0)
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._reaped = True
        except ChildProcessError:
            # Somebody else in this process waits for every child, and it is gone: how it ended is not known.
            self._process.returncode = _UNKNOWN_STATUS
            self._reaped = True
        self._reader.join(_END_S)
        self.ended.set()

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        with stream:
            while line := stream.readline(_MAX_LINE_BYTES):
                text = line.decode(errors="replace").strip()
                self._lines.append(text)
                _logger.info("engine process %d: %s", self.pid, text)

    def _kill_group(self) -> None:
        if not self._reaped:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                # Only its leader is left, as a zombie of which some kernels say so.
                return
