"""GraphSpec: which of a decoder's graphs to write, and with what shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# exp(-64) is 1.6e-28 of a weight of one: nothing in float32, and a step that int8 and float16 can still carry.
# -1e4 would leave int8 scores 256 steps of 40 each, -1e9 is infinite in float16 (docs/rewriting.md).
DEFAULT_MASK_VALUE = -64.0


@dataclass(frozen=True)
class GraphSpec:
    """The shapes of a decoder graph.

    Attributes:
        phase: ``prefill``: a prompt with nothing before it; ``decode``: tokens after ``context`` cached ones.
        context: Tokens the cache holds (decode), and the most positions the graph can name.
        batch: Rows, None for a symbolic dimension.
        tokens: New tokens a row, None for a symbolic dimension.
        rows: How many tokens get logits in one run, None for a symbolic dimension.
        mask_value: What is added to a masked score.
        all_rows: Whether a static graph gives the logits of all its tokens in order, and has no input that picks them:
            some chips pick rows on their CPU.
    """

    phase: Literal["prefill", "decode"]
    context: int
    batch: int | None = None
    tokens: int | None = None
    rows: int | None = None
    mask_value: float = DEFAULT_MASK_VALUE
    all_rows: bool = False

    @property
    def static(self) -> bool:
        """Whether batch and tokens are numbers."""
        return self.batch is not None and self.tokens is not None

    @property
    def has_past(self) -> bool:
        """Whether the graph reads a KV cache."""
        return self.phase == "decode"
