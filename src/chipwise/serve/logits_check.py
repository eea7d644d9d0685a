"""Logits check: whether what a step returned can be a model's logits at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from chipwise.engine.known_fault import Symptom

NumericFault = Literal["nan", "infinite", "zeros", "equal"]
"""What is wrong with a row of logits: NaN in it, infinities but no NaN, all zero, or all the same other number."""

SYMPTOMS: Mapping[NumericFault, Symptom] = {
    "nan": "not_finite",
    "infinite": "not_finite",
    "zeros": "zeros",
    "equal": "differs",
}
"""The symptom that a session may know the reason of."""

WORDS: Mapping[NumericFault, str] = {
    "nan": "hold NaN",
    "infinite": "hold infinity",
    "zeros": "are all zero",
    "equal": "are all equal",
}
"""What is wrong, to be put behind "the model's logits"."""


# Below this OpenBLAS, which numpy multiplies with, takes no second thread.
_FEW = 8192


def faulty_rows(logits: npt.NDArray[np.float32]) -> dict[int, NumericFault]:
    """The rows that cannot be a model's logits, and what is wrong with each; empty if all can.

    Sound logits are read once: NaN and infinity come through a sum, and two that differ are not all equal. What does
    not pass that look gets a second one.

    Args:
        logits: float32 ``[rows, vocab]``.
    """
    item, last = logits.item, logits.shape[1] - 1
    if math.isfinite(_total(logits)) and all(item(row, 0) != item(row, last) for row in range(len(logits))):
        return {}
    pairs = zip(logits.max(axis=1).tolist(), logits.min(axis=1).tolist(), strict=True)
    kinds = [_kind(highest, lowest, logits.shape[1]) for highest, lowest in pairs]
    return {row: kind for row, kind in enumerate(kinds) if kind is not None}


def faulty_sequences(logits: npt.NDArray[np.float32], used: npt.NDArray[np.int64] | None) -> dict[int, NumericFault]:
    """The same for a step with the logits of several tokens a sequence: one bad row spoils its sequence.

    Args:
        logits: float32 ``[rows, vocab]``, or ``[rows, n, vocab]``.
        used: How many tokens of each row are not padding, int64 ``[rows]``; None if there is one each.
    """
    if used is None:
        return faulty_rows(logits)
    found = {row: faulty_rows(logits[row, :count]) for row, count in enumerate(used.tolist())}
    return {row: next(iter(kinds.values())) for row, kinds in found.items() if kinds}


def _total(logits: npt.NDArray[np.float32]) -> float:
    """A sum that NaN and infinity come through. It may overflow where no logit is infinite."""
    # Neither warns of anything. A product is called quickest; on many numbers it would wake numpy's threads, which
    # the engine's then wait for, and a sum by einsum is as fast.
    if logits.size <= _FEW:
        return float(np.vdot(logits, logits))
    return float(np.einsum("ij->", logits))


def _kind(highest: float, lowest: float, vocab: int) -> NumericFault | None:
    if math.isnan(highest):
        return "nan"
    if math.isinf(highest) or math.isinf(lowest):
        return "infinite"
    if highest > lowest:
        return None
    if highest == 0:
        return "zeros"
    return "equal" if vocab > 1 else None
