"""Self-check: a session against itself in both shapes. What it shows is the noise of the comparison, or a fault."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chipwise.engine import Batch, Session
from chipwise.report.quality import SelfCheck
from chipwise.verify.generate import Logits, Prompt, feed
from chipwise.verify.metrics import concatenate, drift

POSITIONS = 16
"""Answer tokens checked a case."""


def self_check(
    session: Session, name: str, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]], *, chunk_tokens: int
) -> SelfCheck:
    """Compare a text fed at once with the same text fed as prompt and then token by token.

    The second time all cases lie in slots side by side and go on together, each at its own length, so that it also
    shows a slot that reads another's tokens, a position that is counted wrong and a mask that lets padding through.

    Args:
        session: The session; its slots are overwritten.
        name: ``reference`` or ``candidate``.
        prompts: One case a slot.
        answers: An answer to each, at least one token.
        chunk_tokens: Tokens a prefill step brings.

    Raises:
        EngineError: The runtime failed.
    """
    whole = [
        _after_prompt(session, slot, prompt, answer[: POSITIONS + 1], chunk_tokens)
        for slot, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]
    stepped = _stepped(session, prompts, answers, chunk_tokens)
    parts = []
    for answer, one, other in zip(answers, whole, stepped, strict=True):
        n = min(len(one), len(other))
        parts.append(drift(one[:n], other[:n], np.array(answer[:n], np.int64)))
    both = concatenate(parts)
    # NaN in either shape makes the maximum NaN, which no limit lets pass.
    return SelfCheck(name, len(both), float(both.kl_nats.max()), float(both.agree.mean()))


def _after_prompt(session: Session, slot: int, prompt: Prompt, answer: Sequence[int], chunk_tokens: int) -> Logits:
    """Logits ``[len(answer), vocab]`` that predict each answer token, the whole text fed at once."""
    text = [*prompt.tokens, *answer[:-1]]
    kept: list[Logits] = []
    start = 0
    for logits in feed(session, slot, text, chunk_tokens=chunk_tokens, logits="all"):
        kept.append(logits[max(0, len(prompt.tokens) - 1 - start) :].copy())
        start += len(logits)
    return np.concatenate(kept)


def _stepped(
    session: Session, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]], chunk_tokens: int
) -> list[Logits]:
    """The same logits, the prompt fed alone and the answers one token a step, all slots together."""
    rows: list[list[Logits]] = []
    for slot, prompt in enumerate(prompts):
        *_, last = feed(session, slot, prompt.tokens, chunk_tokens=chunk_tokens, logits="last")
        rows.append([last[-1].copy()])
    for i in range(min(POSITIONS, max(len(answer) for answer in answers) - 1)):
        # A shorter answer waits at its last token: it is fed again at its place and not compared.
        at = [min(i, len(answer) - 1) for answer in answers]
        tokens = np.array([[answer[j]] for answer, j in zip(answers, at, strict=True)], np.int64)
        past = np.array([len(prompt.tokens) + j for prompt, j in zip(prompts, at, strict=True)], np.int64)
        logits = session.step(Batch(0, tokens, past)).logits
        for row, answer in enumerate(answers):
            if i < len(answer) - 1:
                rows[row].append(logits[row].copy())
    return [np.stack(row) for row in rows]
