"""An engine that crashes, aborts, hangs or does not start as it is told: by tokens, and by files."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from chipwise.engine.graph_session import TensorSpec
from chipwise.engine.null import NullEngine, NullOptions, NullSession, WallClock
from chipwise.errors import EngineError

# Tokens of the test tokenizer that no text holds.
SEGFAULT, ABORT, HANG, VENDOR_ERROR = 251, 252, 253, 254


def next_token(history):
    """A letter that depends on all tokens before it, and is none of those above."""
    mixed = 0
    for token in history:
        mixed = (mixed * 31 + token + 7) & 0xFFFFFFFF
    return ord("a") + mixed * 2654435761 % (1 << 32) * 26 // (1 << 32)


class MisbehavingSession(NullSession):
    """A null session that dies of some tokens."""

    def step(self, batch):
        tokens = set(batch.tokens.ravel().tolist())
        if SEGFAULT in tokens:
            os.kill(os.getpid(), signal.SIGSEGV)
        if ABORT in tokens:
            print("E RKNN: assertion failed in the middle of nowhere", file=sys.stderr, flush=True)
            os.abort()
        if HANG in tokens:
            time.sleep(3600)
        if VENDOR_ERROR in tokens:
            raise KeyError("not one of ours")
        return super().step(batch)


class NoSavingSession:
    """A session without what only some have."""

    def __init__(self, session) -> None:
        self.n_slots, self.max_context = session.n_slots, session.max_context
        self.vocab_size, self.max_step_tokens = session.vocab_size, session.max_step_tokens
        self.whole_tokens = 16
        self.step, self.move_slot, self.close = session.step, session.move_slot, session.close

    def explain(self, symptom):
        return f"{symptom} is known" if symptom == "zeros" else None


class MisbehavingGraph:
    """Doubles ``x``, and dies of some values."""

    input_names, output_names = ("x", "n"), ("y", "count")
    inputs = (
        TensorSpec("x", (None, 3), np.dtype(np.float32)),
        TensorSpec("n", (1,), np.dtype(np.int64)),
    )

    def run(self, feed):
        first = float(feed["x"].flat[0]) if feed["x"].size else 0.0
        if first == SEGFAULT:
            os.kill(os.getpid(), signal.SIGSEGV)
        if first == HANG:
            time.sleep(3600)
        if first == VENDOR_ERROR:
            raise KeyError("not one of ours")
        return {"y": feed["x"] * 2, "count": feed["n"] + feed["x"].size}

    def close(self):
        pass


class UndescribedGraph(MisbehavingGraph):
    """The same without what only some know."""

    def __getattribute__(self, name):
        if name == "inputs":
            raise AttributeError(name)
        return super().__getattribute__(name)


def refuse_if_broken(options):
    broken = options.get("broken")
    if broken and Path(broken).exists():
        print("E RKNN: cannot open the device", flush=True)
        raise EngineError("the device does not answer", where="/dev/rknpu", remedy="see dmesg")


def tell_niceness(options):
    """Add it to a file, and leave a thread behind as engines do."""
    if "told" in options:
        with Path(options["told"]).open("a") as stream:
            print(os.nice(0), file=stream)
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


class MisbehavingEngine(NullEngine):
    """Its options: ``broken``, a file whose being there keeps it from starting; ``step_s``; ``plain``.

    With ``told``, a file, it adds a line there: its niceness as it is opened.
    """

    name = "misbehaving"

    def open(self, files, *, n_slots, max_context, options):
        refuse_if_broken(options)
        step_s = options.get("step_s", 0.0)
        tell_niceness(options)
        null = NullOptions(vocab_size=260, prefill_s=step_s, decode_s=step_s, clock=WallClock(), next_token=next_token)
        session = MisbehavingSession(n_slots, max_context, null)
        return NoSavingSession(session) if options.get("plain") else session

    def open_graph(self, path, *, options):
        refuse_if_broken(options)
        tell_niceness(options)
        return UndescribedGraph() if options.get("plain") else MisbehavingGraph()


class HashingEngine(NullEngine):
    """What the null engine is by itself, under another name."""

    name = "hashing"

    def open(self, files, *, n_slots, max_context, options):
        return NullSession(n_slots, max_context, NullOptions(vocab_size=260))
