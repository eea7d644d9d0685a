"""The null engine: no model, but an answer that depends on every token its slots really hold.

What it says is a function of the history in a slot, so a scheduler that mixes slots up gives wrong text and a test
sees it. Steps cost time on a clock that is passed in, and chosen steps fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.session import Session
from chipwise.errors import EngineError, InputError

NextToken = Callable[[Sequence[int]], int]
"""The "model": from the tokens in a slot to the likeliest next one."""

_MIX = 6364136223846793005  # Knuth's MMIX multiplier: spreads every token over the whole state.
_MASK = (1 << 64) - 1


class Clock(Protocol):
    """What a null session spends its steps' cost on."""

    def __call__(self) -> float:
        """The time in seconds."""
        ...

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        ...


class VirtualClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now_s

    def advance(self, duration_s: float) -> None:
        """Let time pass at once."""
        self.now_s += duration_s


class WallClock:
    """Real time: advancing it sleeps."""

    def __call__(self) -> float:
        """The time in seconds."""
        return time.monotonic()

    def advance(self, duration_s: float) -> None:
        """Sleep."""
        if duration_s > 0:
            time.sleep(duration_s)


@dataclass(frozen=True)
class NullOptions:
    """The settings of a null session.

    Attributes:
        vocab_size: Length of a row of logits.
        max_step_tokens: The most tokens a row of one step may bring.
        next_token: The "model"; None hashes the whole history.
        salt: Makes another model of it, which hashes otherwise; not with ``next_token``.
        slope: How much less each further token id (counted upwards from the next one, around) gets in logits.
        prefill_s: Cost of a prefill, in seconds a token.
        decode_s: Cost of a decode, in seconds a row.
        fail_steps: Steps, counted from 0, that raise EngineError.
        spoil_steps: What fills the logits of steps, counted from 0: NaN, infinity, 0.
        max_draft_tokens: See ``ChecksDrafts``.
        draft_s: Cost of each token of a decode behind a row's first, padding included, in seconds.
        clock: What the cost is spent on; None takes a new virtual clock.
    """

    vocab_size: int = 256
    max_step_tokens: int = 512
    next_token: NextToken | None = None
    salt: int = 0
    slope: float = 1.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    fail_steps: frozenset[int] = frozenset()
    spoil_steps: Mapping[int, float] = field(default_factory=dict)
    max_draft_tokens: int = 0
    draft_s: float = 0.0
    clock: Clock | None = None


@dataclass
class _Slot:
    """The tokens a slot holds, and the hash of every prefix so that a step costs no more as it fills."""

    tokens: list[int] = field(default_factory=list)
    hashes: list[int] = field(default_factory=lambda: [1])

    def extend(self, token: int) -> None:
        self.tokens.append(token)
        self.hashes.append(((self.hashes[-1] ^ (token + 1)) * _MIX + 1) & _MASK)

    def cut(self, length: int) -> None:
        del self.tokens[length:]
        del self.hashes[length + 1 :]


class NullSession:
    """A session whose KV cache is the list of tokens itself."""

    def __init__(self, n_slots: int, max_context: int, options: NullOptions) -> None:
        self._slots = [_Slot() for _ in range(n_slots)]
        self.n_slots: Final = n_slots
        self.max_context: Final = max_context
        self.vocab_size: Final = options.vocab_size
        self.max_step_tokens: Final = options.max_step_tokens
        self.max_draft_tokens: Final = options.max_draft_tokens
        self.max_draft_rows: Final = n_slots
        self._options = options
        # Row t of a step's logits is a window into this ramp: 0 at the next token, falling from there on.
        ramp = -options.slope * np.arange(options.vocab_size, dtype=np.float32)
        self._ramp = np.concatenate([ramp, ramp])
        self._last = np.empty((n_slots, options.vocab_size), dtype=np.float32)
        self.clock: Clock = options.clock or VirtualClock()
        self.steps = 0
        self.moves = 0
        self.closed = False

    def held(self, slot: int) -> list[int]:
        """The tokens a slot holds."""
        return list(self._slots[slot].tokens)

    def step(self, batch: Batch) -> StepOutput:
        """Run one step.

        Raises:
            EngineError: This step is one of ``fail_steps``, or the batch breaks the contract of Session.
        """
        if self.closed:
            raise EngineError("the session is closed")
        number = self.steps
        self.steps += 1
        self._spend(batch)
        if number in self._options.fail_steps:
            raise EngineError(f"step {number} fails as told")
        self._check(batch)
        every = batch.logits == "all"
        shape = (batch.rows, batch.new_tokens, self.vocab_size)
        logits = np.empty(shape, dtype=np.float32) if every else self._last[: batch.rows]
        for row in range(batch.rows):
            slot = self._slots[batch.first_slot + row]
            slot.cut(int(batch.past[row]))
            for i, token in enumerate(batch.tokens[row].tolist()):
                slot.extend(token)
                if every:
                    self._write(slot, logits[row, i])
            if not every:
                self._write(slot, logits[row])
        if number in self._options.spoil_steps:
            logits[:] = self._options.spoil_steps[number]
        return StepOutput(logits=logits)

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first ``tokens`` tokens of one slot's KV over another's.

        Raises:
            EngineError: The source holds fewer tokens.
        """
        held = self._slots[source]
        if tokens > len(held.tokens):
            raise EngineError(f"slot {source} holds {len(held.tokens)} tokens, {tokens} were to be moved")
        self._slots[target] = _Slot(held.tokens[:tokens], held.hashes[: tokens + 1])
        self.moves += 1

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """See ``SavesSlots``: the tokens themselves."""
        held = self._slots[slot].tokens
        if tokens > len(held):
            raise EngineError(f"slot {slot} holds {len(held)} tokens, {tokens} were to be saved")
        return np.array(held[:tokens], np.float32)

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """See ``SavesSlots``."""
        self._slots[slot] = _Slot()
        for token in kv.tolist():
            self._slots[slot].extend(int(token))

    def close(self) -> None:
        """Refuse further steps."""
        self.closed = True

    def _spend(self, batch: Batch) -> None:
        options, extra = self._options, batch.rows * (batch.new_tokens - 1)
        prefill = batch.rows == 1 and batch.new_tokens > 1 and batch.used is None
        decode_s = batch.rows * options.decode_s + extra * options.draft_s
        self.clock.advance(batch.new_tokens * options.prefill_s if prefill else decode_s)

    def _check(self, batch: Batch) -> None:
        if batch.first_slot < 0 or batch.first_slot + batch.rows > self.n_slots:
            raise EngineError(f"slots {batch.first_slot}..{batch.first_slot + batch.rows - 1} of {self.n_slots}")
        if not 0 < batch.new_tokens <= self.max_step_tokens:
            raise EngineError(f"{batch.new_tokens} tokens a row, at most {self.max_step_tokens} fit a step")
        if batch.tokens.min() < 0 or batch.tokens.max() >= self.vocab_size:
            raise EngineError(f"a token outside 0..{self.vocab_size - 1}")
        for row, past in enumerate(batch.past.tolist()):
            held = len(self._slots[batch.first_slot + row].tokens)
            if not 0 <= past <= held:
                raise EngineError(f"slot {batch.first_slot + row} holds {held} tokens, the batch says {past}")
            if past + batch.new_tokens > self.max_context:
                raise EngineError(f"{past} + {batch.new_tokens} tokens, a slot holds {self.max_context}")

    def _write(self, slot: _Slot, row: npt.NDArray[np.float32]) -> None:
        choose, salt = self._options.next_token, self._options.salt * _MIX & _MASK
        token = choose(slot.tokens) if choose else ((slot.hashes[-1] ^ salt) >> 33) % self.vocab_size
        start = (self.vocab_size - token) % self.vocab_size
        row[:] = self._ramp[start : start + self.vocab_size]


class NullEngine:
    """Opens null sessions. It needs no files."""

    name = "null"

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open a session with the fields of NullOptions as ``options``.

        Raises:
            InputError: An option is not one of the null engine's.
        """
        del files
        known = {f.name for f in fields(NullOptions)}
        if unknown := sorted(set(options) - known):
            raise InputError(f"the null engine has no option {unknown[0]!r}", remedy=f"it has {', '.join(known)}")
        return NullSession(n_slots, max_context, NullOptions(**options))
