"""Tokens that end a turn or a text in the families read here, whatever the file names as its end token."""

from __future__ import annotations

END_TOKENS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
)
