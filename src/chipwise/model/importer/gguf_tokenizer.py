"""Tokenizers from GGUF metadata, built as the model's own tokenizer.json would be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, decoders, normalizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE

from chipwise.model.chat_template import ChatTemplate
from chipwise.model.importer.end_tokens import END_TOKENS
from chipwise.model.importer.gguf_header import GgufHeader
from chipwise.model.importer.gguf_splits import SPLIT_RULES, SplitRule
from chipwise.model.importer.gguf_vocabulary import GgufVocabulary, TokenType
from chipwise.model.tokenizer import SpecialTokens, Tokenizer

_SPACE = "▁"


def gguf_tokenizer(header: GgufHeader) -> Tokenizer | None:
    """The tokenizer of a GGUF file; None if it has no vocabulary.

    Raises:
        ModelFormatError: A kind of vocabulary that is not supported, or a malformed one.
    """
    vocabulary = GgufVocabulary(header)
    if not vocabulary.tokens:
        return None
    kind = vocabulary.fields.text("model")
    if kind == "gpt2":
        rule = _split_rule(vocabulary)
        fast, add_bos = _byte_level(vocabulary, rule), rule.add_bos
    elif kind == "llama":
        fast, add_bos = _sentencepiece(vocabulary), True
    else:
        raise vocabulary.error(f"vocabulary kind {kind!r} is not supported; supported are gpt2, llama")
    return Tokenizer(fast, _special_tokens(vocabulary, add_bos))


def gguf_chat_template(header: GgufHeader) -> ChatTemplate | None:
    """The chat template of a GGUF file; None if it has none.

    Raises:
        ModelFormatError: The template does not parse.
    """
    source = header.metadata.get("tokenizer.chat_template")
    if not isinstance(source, str):
        return None
    vocabulary = GgufVocabulary(header)
    bos, eos = vocabulary.id_of("bos_token_id"), vocabulary.id_of("eos_token_id")
    tokens = vocabulary.tokens
    return ChatTemplate(
        source,
        bos_token="" if bos is None else tokens[bos],
        eos_token="" if eos is None else tokens[eos],
        where=f"{header.path}: tokenizer.chat_template",
    )


def _split_rule(vocabulary: GgufVocabulary) -> SplitRule:
    name = vocabulary.fields.text("pre", "default")
    if name not in SPLIT_RULES:
        raise vocabulary.error(f"splitting rule {name!r} is not supported; supported are {', '.join(SPLIT_RULES)}")
    return SPLIT_RULES[name]


def _byte_level(vocabulary: GgufVocabulary, rule: SplitRule) -> FastTokenizer:
    pairs = _merge_pairs(vocabulary)
    fast = FastTokenizer(_bpe(vocabulary, vocabulary.tokens, pairs, ignore_merges=rule.ignore_merges))
    if rule.normalizer is not None:
        fast.normalizer = rule.normalizer()
    fast.pre_tokenizer = rule.pre_tokenizer()
    fast.decoder = decoders.ByteLevel()
    _add_tokens(fast, vocabulary.of_type(TokenType.CONTROL), special=True)
    _add_tokens(fast, vocabulary.of_type(TokenType.USER_DEFINED), special=False)
    return fast


def _merge_pairs(vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """The two parts of every merge. They are checked here: malformed ones end `tokenizers` in a panic."""
    known = set(vocabulary.tokens)
    pairs = []
    for merge in vocabulary.merges:
        left, blank, right = merge.partition(" ")
        if not blank or not {left, right, left + right} <= known:
            raise vocabulary.error(f"merge {merge!r} is not two parts of a token")
        pairs.append((left, right))
    return pairs


def _sentencepiece(vocabulary: GgufVocabulary) -> FastTokenizer:
    is_gemma = vocabulary.arch.startswith("gemma")
    tokens = vocabulary.tokens
    if is_gemma:
        # gemma's files write runs of spaces as spaces; its scores do not follow its merge order, its ids do
        tokens = [_SPACE * len(token) if token.strip(" ") == "" else token for token in tokens]
        ranks = [float(-index) for index in range(len(tokens))]
    else:
        ranks = vocabulary.scores
    if len(ranks) != len(tokens):
        raise vocabulary.error(f"{len(ranks)} scores for {len(tokens)} tokens")
    unknown = vocabulary.of_type(TokenType.UNKNOWN)
    mergeable = {token: index for index, token in enumerate(tokens) if vocabulary.types[index] != TokenType.CONTROL}
    fast = FastTokenizer(
        _bpe(
            vocabulary,
            tokens,
            _merges_by_rank(mergeable, ranks),
            unk_token=unknown[0] if unknown else None,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = vocabulary.fields.flag("add_space_prefix", default=True)
    replace = normalizers.Replace(" ", _SPACE)
    fast.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replace]) if prefix else replace
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    fast.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    swallow = vocabulary.arch == "phi3"
    _add_tokens(fast, vocabulary.of_type(TokenType.CONTROL) + unknown, special=True, rstrip=swallow)
    kept = set(tokens)
    defined = [token for token in vocabulary.of_type(TokenType.USER_DEFINED) if token in kept]
    _add_tokens(fast, defined, special=False, rstrip=swallow)
    return fast


def _bpe(vocabulary: GgufVocabulary, tokens: list[str], merges: list[tuple[str, str]], **settings: Any) -> BPE:
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        raise vocabulary.error(f"{len(tokens) - len(ids)} tokens appear twice")
    try:
        return BPE(vocab=ids, merges=merges, **settings)
    except Exception as e:  # tokenizers raises bare Exception for malformed vocabularies
        raise vocabulary.error(str(e)) from e


def _merges_by_rank(mergeable: dict[str, int], ranks: list[float]) -> list[tuple[str, str]]:
    """Every split of a token into two tokens, the best token first (SentencePiece stores no merges)."""
    found = [
        (-ranks[index], index, mergeable[left], mergeable[right], left, right)
        for token, index in mergeable.items()
        for cut in range(1, len(token))
        if (left := token[:cut]) in mergeable and (right := token[cut:]) in mergeable
    ]
    found.sort()
    return [(left, right) for *_, left, right in found]


def _add_tokens(fast: FastTokenizer, tokens: Iterable[str], *, special: bool, rstrip: bool = False) -> None:
    """Make tokens whole in any text.

    With ``rstrip`` they swallow the blanks after them, as phi3's turn tokens do; GGUF does not say so.
    """
    keep_blanks = ("<unk>", "<s>", "<|endoftext|>")
    added = [
        AddedToken(token, special=special, normalized=False, rstrip=rstrip and token not in keep_blanks)
        for token in tokens
    ]
    if special:
        fast.add_special_tokens(added)
    else:
        fast.add_tokens(added)


def _special_tokens(vocabulary: GgufVocabulary, add_bos: bool) -> SpecialTokens:
    ends = [vocabulary.id_of(name) for name in ("eos_token_id", "eot_token_id", "eom_token_id")]
    named = {token: index for index, token in enumerate(vocabulary.tokens) if token in END_TOKENS}
    ends += [named[token] for token in END_TOKENS if token in named]
    return SpecialTokens(
        bos_id=vocabulary.id_of("bos_token_id"),
        eos_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
        pad_id=vocabulary.id_of("padding_token_id"),
        add_bos=vocabulary.fields.flag("add_bos_token", default=add_bos),
    )
