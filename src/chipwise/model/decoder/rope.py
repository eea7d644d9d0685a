"""Cosine and sine tables of rotary position embeddings, in real numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chipwise.model.config import RopeConfig


def rope_tables(rope: RopeConfig, positions: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The tables ``cos`` and ``sin``, float32 ``[positions, dim / 2]``.

    Angles are computed in float32 from float32 frequencies, as the models were trained (Su et al., RoFormer,
    arXiv 2104.09864, equation 15; the half-split layout).
    """
    if rope.inv_freq is None:
        exponents = np.arange(0, rope.dim, 2, dtype=np.float32) / np.float32(rope.dim)
        inv_freq = (1.0 / np.float32(rope.theta) ** exponents).astype(np.float32)
    else:
        inv_freq = np.asarray(rope.inv_freq, dtype=np.float32)
    angles = np.outer(np.arange(positions, dtype=np.float32), inv_freq)
    scale = np.float32(rope.scale)
    return np.cos(angles) * scale, np.sin(angles) * scale


def causal_bias(tokens: int, mask_value: float, window: int | None = None) -> npt.NDArray[np.float32]:
    """What is added to the scores of a prompt: 0 where a token may look, ``mask_value`` where not.

    Args:
        tokens: Length of the prompt.
        mask_value: Value of a masked score's addend.
        window: Tokens a sliding layer looks back, itself included; None for all.

    Returns:
        float32 ``[1, 1, tokens, tokens]``.
    """
    query = np.arange(tokens)[:, None]
    key = np.arange(tokens)[None, :]
    visible = key <= query
    if window is not None:
        visible &= query - key < window
    return np.where(visible, np.float32(0), np.float32(mask_value)).astype(np.float32)[None, None]
