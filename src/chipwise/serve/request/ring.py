"""Ring: how an answer goes on when its slot is full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Ring:
    """Tokens of a slot of which the first stay and the oldest of the others give way.

    The first tokens are where attention goes that has nowhere else to go, so that a model without them loses its thread
    ("Efficient Streaming Language Models with Attention Sinks", Xiao et al., ICLR 2024); they also hold the system
    prompt. What stays is fed anew, at its new positions: its KV is that of a prompt of these tokens, in any engine.

    Attributes:
        context: Tokens a slot holds.
        sinks: The first tokens, which stay; fewer than half of ``context``.
    """

    context: int
    sinks: int

    def cut(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What stays: the sinks and the newest, so that half of the slot is free."""
        if len(tokens) < self.context:
            return tokens
        newest = self.context // 2 - self.sinks
        return np.concatenate([tokens[: self.sinks], tokens[len(tokens) - newest :]])
