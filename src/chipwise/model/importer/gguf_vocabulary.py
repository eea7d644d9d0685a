"""GgufVocabulary: the token lists in a GGUF file's metadata."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from chipwise.errors import ModelFormatError
from chipwise.model.importer.fields import Fields
from chipwise.model.importer.gguf_header import GgufHeader

_PREFIX = "tokenizer.ggml."


class TokenType(IntEnum):
    """GGUF's ``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class GgufVocabulary:
    """The token lists of a GGUF file's metadata, checked.

    Attributes:
        where: The file, for messages.
        arch: The model's architecture.
        fields: All ``tokenizer.ggml.*`` settings.
        tokens: Every token by its id.
        scores: SentencePiece's score of every token; empty for byte-level vocabularies.
        merges: Byte-level merges in order, the two parts with a space between.
        types: The type of every token.
    """

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
        self.types = types or [int(TokenType.NORMAL)] * len(self.tokens)
        if len(self.types) != len(self.tokens):
            raise self.error(f"{len(self.types)} token types for {len(self.tokens)} tokens")

    def _list(self, name: str, kind: type[str] | type[int] | type[float]) -> list[Any]:
        values = self.fields.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            kinds = {str: "texts", int: "whole numbers", float: "numbers"}
            raise self.error(f"{_PREFIX}{name} is not a list of {kinds[kind]}")
        return values

    def id_of(self, name: str) -> int | None:
        """A token id among the settings; None if absent.

        Raises:
            ModelFormatError: It is no token of the vocabulary.
        """
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(self.tokens):
            raise self.error(f"{_PREFIX}{name} is {value!r}, which is no token")
        return value

    def of_type(self, kind: TokenType) -> list[str]:
        """The tokens of one type, in order of their ids."""
        return [token for token, its in zip(self.tokens, self.types, strict=True) if its == kind]

    def error(self, what: str) -> ModelFormatError:
        """The error to raise when no tokenizer can be built from these lists."""
        return ModelFormatError(
            f"cannot build the tokenizer: {what}",
            where=self.where,
            remedy="take another copy or conversion of the model",
        )
