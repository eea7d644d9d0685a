"""Greedy answers from a session, many slots at once, in shapes that do not depend on what is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from chipwise.engine import Batch, Session
from chipwise.verify.shared_prefix import SharedPrefix

Logits = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]
"""Called with the cases done and their total."""

Observer = Callable[[Batch, Logits, Mapping[int, int]], None]
"""Called with a step, its logits ``[rows, vocab]`` and the token chosen in each row whose answer goes on."""

CHUNK_TOKENS = 128
"""Tokens a prefill step brings at most. Logits of all of them lie in memory at once."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Prompt:
    """What is to be answered.

    Attributes:
        tokens: The prompt's token ids, at least one.
        max_tokens: Length of the answer at most, its end token included.
    """

    tokens: tuple[int, ...]
    max_tokens: int

    @property
    def context(self) -> int:
        """Tokens a slot must hold."""
        return len(self.tokens) + self.max_tokens


@dataclass(frozen=True)
class Answer:
    """A greedy answer.

    Attributes:
        tokens: Its token ids; the end token is the last if there was one.
        finite: False if it broke off because the logits were NaN or infinite.
    """

    tokens: tuple[int, ...]
    finite: bool = True


@dataclass(frozen=True)
class Turn:
    """A slot whose prompt has been read and whose first answer token is known.

    Attributes:
        past: Tokens in the slot.
        first: The first token of the answer.
        max_tokens: Length of the answer at most.
        finite: Whether the logits that chose ``first`` were finite.
    """

    past: int
    first: int
    max_tokens: int
    finite: bool


def feed(
    session: Session,
    slot: int,
    tokens: Sequence[int],
    *,
    past: int = 0,
    chunk_tokens: int,
    logits: Literal["last", "all"],
) -> Iterator[Logits]:
    """Extend one slot by tokens, a chunk a step.

    Yields:
        The logits of each chunk: ``[n, vocab]`` for ``all``, ``[1, vocab]`` for ``last``. They are the session's
        memory, overwritten by its next step.
    """
    for start in range(0, len(tokens), chunk_tokens):
        chunk = np.array([tokens[start : start + chunk_tokens]], np.int64)
        out = session.step(Batch(slot, chunk, np.array([past + start], np.int64), logits)).logits
        yield out[0] if logits == "all" else out


def decode(
    session: Session, turns: Sequence[Turn], eos_ids: Sequence[int], *, observe: Observer | None = None
) -> list[Answer]:
    """Answer greedily in slots 0, 1, ..., all in one batch, until the last has ended.

    A slot that has ended stays in the batch, so that every step has the same shape whatever the answers are. It
    rewrites the place after its prompt, which belongs to the answer.

    Args:
        session: The model.
        turns: What each slot starts from.
        eos_ids: Tokens that end an answer.
        observe: Told of each step.

    Raises:
        EngineError: The runtime failed.
    """
    ends = frozenset(eos_ids)
    answers = [[turn.first] for turn in turns]
    finite = [turn.finite for turn in turns]
    running = [turn.finite and turn.first not in ends and turn.max_tokens > 1 for turn in turns]
    while any(running):
        past = [t.past + (len(a) - 1 if on else 0) for t, a, on in zip(turns, answers, running, strict=True)]
        batch = Batch(0, np.array([[answer[-1]] for answer in answers], np.int64), np.array(past, np.int64))
        logits = session.step(batch).logits
        chosen: dict[int, int] = {}
        for row in [row for row, on in enumerate(running) if on]:
            if not np.isfinite(logits[row]).all():
                finite[row] = running[row] = False
                continue
            token = chosen[row] = int(logits[row].argmax())
            answers[row].append(token)
            running[row] = token not in ends and len(answers[row]) < turns[row].max_tokens
        if observe:
            observe(batch, logits, chosen)
    return [Answer(tuple(tokens), ok) for tokens, ok in zip(answers, finite, strict=True)]


def first_turn(prompt: Prompt, logits: Logits) -> Turn:
    """The turn that starts from the logits ``[vocab]`` after a prompt."""
    return Turn(len(prompt.tokens), int(logits.argmax()), prompt.max_tokens, bool(np.isfinite(logits).all()))


def generate(
    session: Session, prompts: Sequence[Prompt], *, eos_ids: Sequence[int], progress: Progress | None = None
) -> list[Answer]:
    """Answer prompts greedily.

    Args:
        session: The model. All its slots are used.
        prompts: Prompts that fit its context.
        eos_ids: Tokens that end an answer. In a prompt they end nothing.
        progress: Told the cases done.

    Raises:
        EngineError: The runtime failed.
    """
    chunk = min(CHUNK_TOKENS, session.max_step_tokens)
    answers: list[Answer] = []
    prefix = SharedPrefix([session])
    for wave in waves(prompts, session.n_slots):
        turns = []
        for slot, prompt in enumerate(wave):
            past = prefix.place(slot, prompt.tokens)
            *_, last = feed(session, slot, prompt.tokens[past:], past=past, chunk_tokens=chunk, logits="last")
            turns.append(first_turn(prompt, last[-1]))
        answers += decode(session, turns, eos_ids)
        if progress:
            progress(len(answers), len(prompts))
    return answers


def waves(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """The items, ``size`` at a time."""
    stream = iter(items)
    while wave := list(islice(stream, size)):
        yield wave
