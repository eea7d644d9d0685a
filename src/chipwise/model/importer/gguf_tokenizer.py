"""Tokenizers from GGUF metadata, built as the model's own tokenizer.json would be."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from tokenizers import AddedToken, decoders, normalizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE

from chipwise.errors import ModelFormatError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.importer.end_tokens import END_TOKENS
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.gguf_header import GgufHeader
from chipwise.model.importer.gguf_splits import SPLIT_RULES, SplitRule
from chipwise.model.tokenizer import SpecialTokens, Tokenizer

_SPACE = "▁"
_PREFIX = "tokenizer.ggml."


class _TokenType(IntEnum):
    """GGUF's ``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class _Vocabulary:
    """The token lists of the metadata, checked."""

    def __init__(self, header: GgufHeader) -> None:
        self.where = str(header.path)
        self.arch = str(header.metadata.get("general.architecture"))
        self.fields = Fields(
            {k.removeprefix(_PREFIX): v for k, v in header.metadata.items() if k.startswith(_PREFIX)},
            f"{self.where}: {_PREFIX}*",
        )
        tokens: list[str] = self._list("tokens", str)
        self.tokens = [token or f"[EMPTY_{index}]" for index, token in enumerate(tokens)]
        self.scores: list[float] = self._list("scores", float)
        self.merges: list[str] = self._list("merges", str)
        types: list[int] = self._list("token_type", int)
        self.types = types or [int(_TokenType.NORMAL)] * len(self.tokens)
        if len(self.types) != len(self.tokens):
            raise self.error(f"{len(self.types)} token types for {len(self.tokens)} tokens")

    def _list(self, name: str, kind: type) -> list[Any]:
        values = self.fields.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            raise self.error(f"{_PREFIX}{name} is not a list of {kind.__name__}")
        return values

    def id_of(self, name: str) -> int | None:
        """A token id among the settings; None if absent."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(self.tokens):
            raise self.error(f"{_PREFIX}{name} is {value!r}, which is no token")
        return value

    def of_type(self, kind: _TokenType) -> list[str]:
        return [token for token, its in zip(self.tokens, self.types, strict=True) if its == kind]

    def error(self, what: str) -> ModelFormatError:
        return ModelFormatError(f"cannot build the tokenizer: {what}", where=self.where)


def gguf_tokenizer(header: GgufHeader) -> Tokenizer | None:
    """The tokenizer of a GGUF file; None if it has no vocabulary.

    Raises:
        ModelFormatError: A kind of vocabulary that is not supported, or a malformed one.
    """
    vocabulary = _Vocabulary(header)
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
    vocabulary = _Vocabulary(header)
    bos, eos = vocabulary.id_of("bos_token_id"), vocabulary.id_of("eos_token_id")
    tokens = vocabulary.tokens
    return ChatTemplate(
        source,
        bos_token="" if bos is None else tokens[bos],
        eos_token="" if eos is None else tokens[eos],
    )


def _split_rule(vocabulary: _Vocabulary) -> SplitRule:
    name = vocabulary.fields.text("pre", "default")
    if name not in SPLIT_RULES:
        raise vocabulary.error(f"splitting rule {name!r} is not supported; supported are {', '.join(SPLIT_RULES)}")
    return SPLIT_RULES[name]


def _byte_level(vocabulary: _Vocabulary, rule: SplitRule) -> FastTokenizer:
    # a merge's left part may itself start with a space in vocabularies that are not byte-level
    pairs = [(merge[: (cut := merge.find(" ", 1))], merge[cut + 1 :]) for merge in vocabulary.merges]
    fast = FastTokenizer(_bpe(vocabulary, vocabulary.tokens, pairs, ignore_merges=rule.ignore_merges))
    if rule.normalizer is not None:
        fast.normalizer = rule.normalizer()
    fast.pre_tokenizer = rule.pre_tokenizer()
    fast.decoder = decoders.ByteLevel()
    _add_tokens(fast, vocabulary.of_type(_TokenType.CONTROL), special=True)
    _add_tokens(fast, vocabulary.of_type(_TokenType.USER_DEFINED), special=False)
    return fast


def _sentencepiece(vocabulary: _Vocabulary) -> FastTokenizer:
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
    unknown = vocabulary.of_type(_TokenType.UNKNOWN)
    mergeable = {token: index for index, token in enumerate(tokens) if vocabulary.types[index] != _TokenType.CONTROL}
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
    _add_tokens(fast, vocabulary.of_type(_TokenType.CONTROL) + unknown, special=True, rstrip=swallow)
    kept = set(tokens)
    defined = [token for token in vocabulary.of_type(_TokenType.USER_DEFINED) if token in kept]
    _add_tokens(fast, defined, special=False, rstrip=swallow)
    return fast


def _bpe(vocabulary: _Vocabulary, tokens: list[str], merges: list[tuple[str, str]], **settings: Any) -> BPE:
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


def _special_tokens(vocabulary: _Vocabulary, add_bos: bool) -> SpecialTokens:
    ends = [vocabulary.id_of(name) for name in ("eos_token_id", "eot_token_id", "eom_token_id")]
    named = {token: index for index, token in enumerate(vocabulary.tokens) if token in END_TOKENS}
    ends += [named[token] for token in END_TOKENS if token in named]
    return SpecialTokens(
        bos_id=vocabulary.id_of("bos_token_id"),
        eos_ids=tuple(dict.fromkeys(end for end in ends if end is not None)),
        pad_id=vocabulary.id_of("padding_token_id"),
        add_bos=vocabulary.fields.flag("add_bos_token", default=add_bos),
    )
