"""How each kind of byte-level vocabulary splits text before merging, by GGUF's ``tokenizer.ggml.pre``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.normalizers import NFC, Normalizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

# The patterns of the models' own tokenizer.json files.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
_GPT_4O_WORD = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
)
_GPT_4O = _GPT_4O_WORD + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class SplitRule:
    """What a vocabulary does before it merges.

    Attributes:
        pre_tokenizer: Makes the splitter.
        normalizer: Makes the normalizer, None for none.
        ignore_merges: Whether a piece that is a token already is taken whole.
        add_bos: Whether text starts with the start token where the file does not say.
    """

    pre_tokenizer: Callable[[], PreTokenizer]
    normalizer: Callable[[], Normalizer] | None = None
    ignore_merges: bool = False
    add_bos: bool = False


def _by_pattern(pattern: str) -> Callable[[], PreTokenizer]:
    return lambda: Sequence(
        [Split(Regex(pattern), behavior="isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def _gpt2() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=True)


def _single_digits() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)])


_GPT2_RULE = SplitRule(_gpt2)
_DIGITS_RULE = SplitRule(_single_digits)
_QWEN2_RULE = SplitRule(_by_pattern(_QWEN2), normalizer=NFC)
_LLAMA3_RULE = SplitRule(_by_pattern(_LLAMA3), ignore_merges=True, add_bos=True)

SPLIT_RULES: dict[str, SplitRule] = {
    "default": _GPT2_RULE,
    "gpt-2": _GPT2_RULE,
    "smollm": _DIGITS_RULE,
    "starcoder": _DIGITS_RULE,
    "refact": _DIGITS_RULE,
    "codeshell": _DIGITS_RULE,
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": _QWEN2_RULE,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "gpt-4o": SplitRule(_by_pattern(_GPT_4O)),
}
