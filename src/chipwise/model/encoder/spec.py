"""EncoderSpec: with what shapes an encoder's graph is written."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE


@dataclass(frozen=True)
class EncoderSpec:
    """The shapes of an encoder graph.

    Attributes:
        batch: Texts, None for a symbolic dimension.
        tokens: Tokens of each text with its padding, None for a symbolic dimension.
        mask_value: What is added to the score of a padded token.
    """

    batch: int | None = None
    tokens: int | None = None
    mask_value: float = DEFAULT_MASK_VALUE
