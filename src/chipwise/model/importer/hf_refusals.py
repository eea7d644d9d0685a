"""Settings of a config.json that would change the answers and that nothing here computes."""

from __future__ import annotations

from typing import Any

from chipwise.errors import UnknownArchitectureError
from chipwise.model.importer.fields import Fields

# Setting, the values that change nothing, and what to say of another.
_HARMLESS: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("mlp_bias", (False,), "biases in the feed-forward part"),
    ("attention_bias", (False,), "a bias on the attention's output"),
    ("attn_logit_softcapping", (), "capped attention scores"),
    ("use_bidirectional_attention", (False,), "attention that looks ahead"),
    ("num_local_experts", (0, 1), "a mixture of experts"),
    ("num_experts", (0, 1), "a mixture of experts"),
    ("is_decoder", (False,), "an encoder run as a decoder"),
    ("add_cross_attention", (False,), "cross-attention"),
    ("position_embedding_type", ("absolute",), "relative positions"),
    ("embedding_size", (), "an embedding of another width"),
)


def refuse_unsupported(fields: Fields) -> None:
    """Refuse what would silently give other answers.

    Raises:
        UnknownArchitectureError: A setting asks for what is not supported.
    """
    if "quantization_config" in fields:
        method = fields.section("quantization_config").get("quant_method")
        raise UnknownArchitectureError(
            f"the weights are quantized already ({method})",
            where=fields.where,
            remedy="use the model they were made from",
        )
    for name, harmless, meaning in _HARMLESS:
        if name in fields and fields.get(name) not in harmless:
            raise UnknownArchitectureError(
                f"{name} is {fields.get(name)!r}: {meaning} is not supported", where=fields.where
            )
