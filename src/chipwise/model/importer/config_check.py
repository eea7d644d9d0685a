"""Checks that the sizes of a config fit together, whatever file they came from."""

from __future__ import annotations

from chipwise.errors import ModelFormatError
from chipwise.model.config import DecoderConfig

_REMEDY = "correct it, or download the model again"


def checked_config(config: DecoderConfig, where: str) -> DecoderConfig:
    """The config, once its heads and rotations are known to be possible.

    Raises:
        ModelFormatError: They are not.
    """
    if config.n_heads % config.n_kv_heads:
        raise ModelFormatError(
            f"{config.n_heads} query heads cannot share {config.n_kv_heads} key and value heads",
            where=where,
            remedy=_REMEDY,
        )
    for rope in (config.rope, config.rope_local):
        if rope is not None and (rope.dim % 2 or not 0 < rope.dim <= config.head_dim):
            raise ModelFormatError(
                f"{rope.dim} of {config.head_dim} channels of a head cannot turn", where=where, remedy=_REMEDY
            )
        if rope is not None and rope.theta <= 0:
            raise ModelFormatError(
                f"the rotation's base is {rope.theta}, expected above 0", where=where, remedy=_REMEDY
            )
    return config
