"""StepPlace: where a step's arrays lie in the memory that two processes share."""

from __future__ import annotations

from chipwise.engine.isolated.shared import aligned

_INT64_BYTES = 8


class StepPlace:
    """Offsets in bytes: past comes first, at 0, then how many tokens are used, the tokens, and the logits.

    Attributes:
        used: Of how many tokens each row really brings, int64 ``[rows]``.
        tokens: Of the tokens, int64 ``[rows, new]``.
        logits: Of the logits, float32.
    """

    def __init__(self, rows: int, new: int) -> None:
        self.used = aligned(_INT64_BYTES * rows)
        self.tokens = aligned(self.used + _INT64_BYTES * rows)
        self.logits = aligned(self.tokens + _INT64_BYTES * rows * new)
