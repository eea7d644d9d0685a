"""Self-check: a session against itself in both shapes. What it shows is the noise of a comparison, or a fault."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipwise.engine import Batch, Session
from chipwise.report.quality import SelfCheck
from chipwise.verify.generate import Logits, Prompt, feed
from chipwise.verify.metrics import concatenate, drift

POSITIONS = 8
"""Answer tokens checked a case."""


def self_check(
    session: Session, name: str, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]], *, chunk_tokens: int
) -> SelfCheck:
    """Compare texts read at once with the same texts fed token by token, from each prompt's last token on.

    The second time all cases go on together in slots side by side, each at its own length, so that it also shows a
    slot that reads another's tokens, a position that is counted wrong and a mask that lets the wrong tokens through.
    Each prompt's end is read a third time as serving reads it, for the logits of its last token alone, so that it also
    shows padding that those are taken from.

    Args:
        session: The session. Slots 0, 1, ... hold the prompts; what is behind them is overwritten.
        name: ``reference`` or ``candidate``.
        prompts: One case a slot.
        answers: An answer to each, at least one token.
        chunk_tokens: Tokens a step of one row brings.

    Raises:
        EngineError: The runtime failed.
    """
    targets = [np.array(answer[: POSITIONS + 1], np.int64) for answer in answers]
    texts = [(prompt.tokens[-1], *answer[:-1][:POSITIONS]) for prompt, answer in zip(prompts, answers, strict=True)]
    pasts = [len(prompt.tokens) - 1 for prompt in prompts]
    ends = [_end(session, slot, prompt.tokens, chunk_tokens) for slot, prompt in enumerate(prompts)]
    at_once = [
        _at_once(session, slot, past, text, chunk_tokens)
        for slot, (past, text) in enumerate(zip(pasts, texts, strict=True))
    ]
    stepped = _stepped(session, pasts, texts)
    parts = [
        drift(np.stack(one), np.stack(other), target)
        for one, other, target in zip(at_once, stepped, targets, strict=True)
    ]
    parts += [
        drift(end[None], other[0][None], target[:1]) for end, other, target in zip(ends, stepped, targets, strict=True)
    ]
    both = concatenate(parts)
    # NaN in either shape makes mean and maximum NaN, which no limit lets pass.
    return SelfCheck(name, len(both), float(both.kl_nats.mean()), float(both.kl_nats.max()), float(both.agree.mean()))


def _end(session: Session, slot: int, prompt: Sequence[int], chunk_tokens: int) -> Logits:
    """Logits ``[vocab]`` after a prompt whose last chunk is read once more, for its last token alone."""
    start = (len(prompt) - 1) // chunk_tokens * chunk_tokens
    (logits,) = feed(session, slot, prompt[start:], past=start, chunk_tokens=chunk_tokens, logits="last")
    return np.asarray(logits[-1], np.float32).copy()


def _at_once(session: Session, slot: int, past: int, text: Sequence[int], chunk_tokens: int) -> list[Logits]:
    """Logits ``[vocab]`` after each token of a text."""
    kept: list[Logits] = []
    for logits in feed(session, slot, text, past=past, chunk_tokens=chunk_tokens, logits="all"):
        kept.extend(logits.copy())
    return kept


def _stepped(session: Session, pasts: Sequence[int], texts: Sequence[Sequence[int]]) -> list[list[Logits]]:
    """The same logits, one token a step, all slots together."""
    kept: list[list[Logits]] = [[] for _ in texts]
    for i in range(max(len(text) for text in texts)):
        # A shorter text waits at its last token: it is fed again at its place and not compared.
        at = [min(i, len(text) - 1) for text in texts]
        tokens = np.array([[text[j]] for text, j in zip(texts, at, strict=True)], np.int64)
        past = np.array([start + j for start, j in zip(pasts, at, strict=True)], np.int64)
        logits = session.step(Batch(0, tokens, past)).logits
        for row, text in enumerate(texts):
            if i < len(text):
                kept[row].append(logits[row].copy())
    return kept
