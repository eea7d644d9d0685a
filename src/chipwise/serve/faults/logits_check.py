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


def check_logits(
    logits: npt.NDArray[np.float32], used: npt.NDArray[np.int64] | None = None
) -> tuple[list[int], dict[int, NumericFault]]:
    """Find each row's likeliest token, and the rows that cannot be a model's logits.

    One look serves both, as a choice reads the whole row for its largest logit anyway. Of sound rows the largest and
    the smallest logit have a difference above 0 that is finite. NaN comes out of argmax and argmin, infinity is the
    largest or the smallest, and where all are equal there is no difference.

    Args:
        logits: float32 ``[rows, vocab]``; or ``[rows, n, vocab]``, where one bad token spoils its row.
        used: How many tokens of each row are not padding, int64 ``[rows]``; None if there is one each.

    Returns:
        The ids of the likeliest tokens, of equal ones the lowest, behind each token of each row, padding included; the
        faulty rows with what is wrong with each, empty if there are none.
    """
    if used is not None:
        logits = logits.reshape(-1, logits.shape[-1])
    # After a step the caches hold none of this code, and fetching it takes longer than reading the numbers: hence all
    # rows in one call, and the plainest code for the row that decodes alone.
    best: list[int] = logits.argmax(1).tolist()
    worst: list[int] = logits.argmin(1).tolist()
    if len(best) == 1 and 0.0 < logits.item(best[0]) - logits.item(worst[0]) < 1e39:  # no float32s are so far apart
        return best, {}
    item = logits.item
    for row, token in enumerate(best):
        if not 0.0 < item(row, token) - item(row, worst[row]) < 1e39:
            return best, _faults(logits, best, worst, used)
    return best, {}


def _faults(
    logits: npt.NDArray[np.float32], best: list[int], worst: list[int], used: npt.NDArray[np.int64] | None
) -> dict[int, NumericFault]:
    """The faulty rows, told from the largest and the smallest logit behind each token."""
    each = 1 if used is None else len(best) // len(used)
    found: dict[int, NumericFault] = {}
    for at, (highest, lowest) in enumerate(zip(best, worst, strict=True)):
        row, token = divmod(at, each)
        if used is None or token < used[row]:
            kind = _kind(logits.item(at, highest), logits.item(at, lowest), logits.shape[1])
            if kind is not None:
                found.setdefault(row, kind)
    return found


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
