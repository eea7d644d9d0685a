"""The proof of a rewrite of a decoder: the logits of a prompt before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from chipwise.build.graph_files import GraphFiles
from chipwise.engine import Batch
from chipwise.errors import RewriteError

Logits = npt.NDArray[np.float32]

# Largest difference of a logit over the largest logit: float32 sums in another order, and 1e-6 of a masked key.
_TOLERANCE = 1e-4


def read_logits(graphs: GraphFiles, prompt: Sequence[int], threads: int) -> Logits:
    """The logits of every token of a prompt, ``[n, vocab]``, as an engine gives them."""
    session = graphs.open(n_slots=1, max_context=len(prompt), threads=threads)
    try:
        batch = Batch(0, np.array([prompt], np.int64), np.zeros(1, np.int64), "all")
        logits: Logits = session.step(batch).logits[0].copy()
        return logits
    finally:
        session.close()


def proven(rewrite: str, before: Logits, after: Logits) -> float:
    """The largest difference of a logit.

    Raises:
        RewriteError: It is more than float32 sums in another order make.
    """
    largest, scale = float(np.abs(before - after).max()), float(np.abs(before).max())
    if not largest <= _TOLERANCE * max(scale, 1.0):
        raise RewriteError(
            f"the logits differ by {largest:.3g} of {scale:.3g}",
            where=rewrite,
            remedy="report this model: the rewrite is not safe for it",
        )
    return largest
