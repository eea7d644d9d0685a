"""The worker: a process that holds one open engine and does what it is told, until the wire ends.

Called as ``python -m chipwise.engine.isolated.worker WIRE MEMORY KV PARENT``: three inherited file descriptors (see
``EngineProcess``) and the number of the process that started it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
import traceback
from functools import partial
from pathlib import Path

import numpy as np

from chipwise.engine.batch import Batch
from chipwise.engine.isolated.graph_desk import GraphDesk
from chipwise.engine.isolated.shared import SharedMemory
from chipwise.engine.isolated.step_place import StepPlace
from chipwise.engine.isolated.wire import Message, error_message, receive, send
from chipwise.engine.known_fault import knows_faults
from chipwise.engine.registry import get_engine
from chipwise.engine.session import Session, draft_limits, saves_slots, whole_tokens
from chipwise.errors import ChipwiseError, EngineError

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = Path("/proc/self/oom_score_adj")
# If memory runs out, the engine is to go and not the server, which can start it again.
_RATHER_THIS_ONE = "300"


class Worker:
    """One session, asked over a wire."""

    def __init__(self, control: socket.socket, memory: SharedMemory, kv: SharedMemory) -> None:
        self._control, self._memory, self._kv = control, memory, kv

    def run(self) -> None:
        """Open what the first message names, then answer until the other side ends."""
        first = receive(self._control)
        if first is None:
            return
        try:
            if "graph" in first:
                desk = GraphDesk(first, self._memory)
                told, do, close = desk.facts(), desk.do, desk.close
            else:
                session = _open(first)
                told, do, close = facts(session), partial(self._do, session), session.close
        except Exception as e:  # whatever it is, the server must hear of it
            self._answer_error(e)
            return
        gc.collect()
        gc.freeze()
        self._answer(told)
        while (message := receive(self._control)) is not None:
            try:
                self._answer(do(message))
            except Exception as e:  # as above
                self._answer_error(e)
        close()

    def _do(self, session: Session, message: Message) -> Message:
        what = message["do"]
        if what == "step":
            return {"once_s": self._step(session, message)}
        elif what == "move":
            session.move_slot(message["source"], message["target"], message["tokens"])
        elif what == "save" and saves_slots(session):
            kv = session.save_slot(message["slot"], message["tokens"])
            self._kv.array(np.float32, kv.shape)[...] = kv
            return {"shape": kv.shape}
        elif what == "load" and saves_slots(session):
            session.load_slot(message["slot"], self._kv.array(np.float32, tuple(message["shape"])).copy())
        elif what == "explain":
            return {"text": session.explain(message["symptom"]) if knows_faults(session) else None}
        else:
            raise EngineError(f"the engine's process does not know {what!r}")
        return {}

    def _step(self, session: Session, message: Message) -> float:
        rows, new, first, every = message["rows"], message["new"], message["first"], message["all"]
        place = StepPlace(rows, new)
        # Copies, as the engine may keep them, and the other side writes here again.
        tokens = self._memory.array(np.int64, (rows, new), place.tokens).copy()
        past = self._memory.array(np.int64, (rows,)).copy()
        used = self._memory.array(np.int64, (rows,), place.used).copy() if message["padded"] else None
        output = session.step(Batch(first, tokens, past, "all" if every else "last", used))
        self._memory.array(np.float32, output.logits.shape, place.logits)[...] = output.logits
        return output.once_s

    def _answer(self, message: Message) -> None:
        send(self._control, message)

    def _answer_error(self, error: Exception) -> None:
        if not isinstance(error, ChipwiseError):
            traceback.print_exception(error)
        self._answer(error_message(error))


def facts(session: Session) -> Message:
    """What the other side has to know of a session."""
    draft_tokens, draft_rows = draft_limits(session)
    return {
        "n_slots": session.n_slots,
        "max_context": session.max_context,
        "vocab_size": session.vocab_size,
        "max_step_tokens": session.max_step_tokens,
        "whole_tokens": whole_tokens(session),
        "max_draft_tokens": draft_tokens,
        "max_draft_rows": draft_rows,
        "saves": saves_slots(session),
    }


def _open(message: Message) -> Session:
    files = {role: Path(path) for role, path in message["files"].items()}
    return get_engine(message["engine"]).open(
        files, n_slots=message["n_slots"], max_context=message["max_context"], options=message["options"]
    )


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends, however that happens.

    A wire that closes would not be noticed by a process that hangs.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit("the process that started this one has ended")


def _yield_memory() -> None:
    try:
        _OOM_SCORE.write_text(_RATHER_THIS_ONE, "ascii")
    except OSError:
        return  # a system without it kills whom it likes


def main() -> None:
    """Take what was inherited, and work."""
    wire, memory, kv, parent = (int(argument) for argument in sys.argv[1:])
    _die_with(parent)
    # The server is told to end by signals to all its processes; it drains first, and needs its engine for that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (wire, memory, kv):
        os.set_inheritable(descriptor, False)
    _yield_memory()
    Worker(socket.socket(fileno=wire), SharedMemory(memory), SharedMemory(kv)).run()


if __name__ == "__main__":
    main()
