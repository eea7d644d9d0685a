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
    """Compare answers fed at once after their prompts with the same answers fed token by token.

    The second time all cases go on together in slots side by side, each at its own length, so that it also shows a
    slot that reads another's tokens, a position that is counted wrong and a mask that lets the wrong tokens through.

    Args:
        session: The session. Slots 0, 1, ... hold the prompts; what is behind them is overwritten.
        name: ``reference`` or ``candidate``.
        prompts: One case a slot.
        answers: An answer to each, at least one token.
        chunk_tokens: Tokens a step of one row brings.

    Raises:
        EngineError: The runtime failed.
    """
    cut = [tuple(answer[: POSITIONS + 1]) for answer in answers]
    at_once = [
        _at_once(session, slot, len(prompt.tokens), answer, chunk_tokens)
        for slot, (prompt, answer) in enumerate(zip(prompts, cut, strict=True))
    ]
    stepped = _stepped(session, [len(prompt.tokens) for prompt in prompts], cut)
    parts = [
        drift(np.stack(one), np.stack(other), np.array(answer[1:], np.int64))
        for one, other, answer in zip(at_once, stepped, cut, strict=True)
        if one
    ]
    both = concatenate(parts)
    if not len(both):
        # Answers of one token each: no token was fed, and nothing can disagree.
        return SelfCheck(name, 0, 0.0, 0.0, 1.0)
    # NaN in either shape makes mean and maximum NaN, which no limit lets pass.
    return SelfCheck(name, len(both), float(both.kl_nats.mean()), float(both.kl_nats.max()), float(both.agree.mean()))


def _at_once(session: Session, slot: int, past: int, answer: Sequence[int], chunk_tokens: int) -> list[Logits]:
    """Logits ``[vocab]`` after each token of an answer but its last."""
    kept: list[Logits] = []
    for logits in feed(session, slot, answer[:-1], past=past, chunk_tokens=chunk_tokens, logits="all"):
        kept.extend(logits.copy())
    return kept


def _stepped(session: Session, pasts: Sequence[int], answers: Sequence[Sequence[int]]) -> list[list[Logits]]:
    """The same logits, one token a step, all slots together."""
    kept: list[list[Logits]] = [[] for _ in answers]
    for i in range(max(len(answer) for answer in answers) - 1):
        # A shorter answer waits at its last token: it is fed again at its place and not compared.
        at = [min(i, len(answer) - 1) for answer in answers]
        tokens = np.array([[answer[j]] for answer, j in zip(answers, at, strict=True)], np.int64)
        past = np.array([start + j for start, j in zip(pasts, at, strict=True)], np.int64)
        logits = session.step(Batch(0, tokens, past)).logits
        for row, answer in enumerate(answers):
            if i < len(answer) - 1:
                kept[row].append(logits[row].copy())
    return kept
