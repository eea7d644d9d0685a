"""Lockstep: the reference answers greedily, and the candidate is taken through the same tokens step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chipwise.engine import Batch, Session
from chipwise.verify.generate import Answer, Logits, Turn, decode
from chipwise.verify.metrics import PositionDrift, drift


def answer_in_lockstep(
    reference: Session, candidate: Session, turns: Sequence[Turn], eos_ids: Sequence[int]
) -> tuple[list[Answer], list[list[PositionDrift]]]:
    """The reference's answers in slots 0, 1, ..., and how the candidate drifts at each of their tokens.

    Both take the same steps: one token a slot, all slots in one batch, as when they are served.

    Args:
        reference: Chooses the tokens.
        candidate: Is fed them.
        turns: What each slot starts from, on the reference's side.
        eos_ids: Tokens that end an answer.

    Returns:
        The answers, and for each the drift at its second token, third token and so on, one position a part.

    Raises:
        EngineError: A runtime failed.
    """
    drifts: list[list[PositionDrift]] = [[] for _ in turns]

    def follow(batch: Batch, ours: Logits, chosen: Mapping[int, int]) -> None:
        theirs = candidate.step(batch).logits
        for row, token in chosen.items():
            drifts[row].append(drift(ours[row : row + 1], theirs[row : row + 1], np.array([token])))

    return decode(reference, turns, eos_ids, observe=follow), drifts
