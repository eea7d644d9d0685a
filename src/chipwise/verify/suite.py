"""Suite: the cases a model is judged by, from a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chipwise.errors import QueryFileError
from chipwise.files import sha256_file
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.queries import Query, json_object, numbered_lines, query_of
from chipwise.model.tokenizer import Tokenizer
from chipwise.verify.generate import Prompt
from chipwise.verify.keywords import entities, normalise

DEFAULT_MAX_TOKENS = 64
"""Length of an answer where a case names none."""

LABELS = ("domain", "lang", "kind")
"""Fields by which a report breaks its figures down."""

_LONGEST_ANSWER = 65536
_FIELDS = ("id", "messages", "prompt", "text", "expected", "keywords", "max_tokens", *LABELS)
_SHAPE = '{"id": "...", "messages": [...] or "prompt": "...", "expected": "...", "keywords": ["..."]}'


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        id: Its name, the only one in its suite.
        query: What is asked.
        expected: The right answer; None if the suite names none.
        keywords: What an answer must reproduce; empty if the case is not scored by keywords.
        max_tokens: Length of the answer at most, its end token included.
        labels: ``domain``, ``lang`` and ``kind``, those that are given.
    """

    id: str
    query: Query
    expected: str | None = None
    keywords: tuple[str, ...] = ()
    max_tokens: int = DEFAULT_MAX_TOKENS
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What is asked, for people: roles are named only where there are several messages."""
        if self.query.prompt is not None:
            return self.query.prompt
        messages = self.query.messages
        texts = [str(message.get("content") or message.get("tool_calls") or "") for message in messages]
        if len(messages) == 1:
            return texts[0]
        return "\n".join(f"{message['role']}: {text}" for message, text in zip(messages, texts, strict=True))

    def encode(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> Prompt:
        """The prompt both sides are given: the same token ids, made once.

        Raises:
            RequestError: The template refuses the conversation.
            QueryFileError: A conversation, and the model has no template.
        """
        return Prompt(tuple(self.query.tokens(tokenizer, template)), self.max_tokens)


@dataclass(frozen=True)
class Suite:
    """Cases and where they are from.

    Attributes:
        name: A short name: the file's.
        cases: The cases, at least one.
        sha256: Digest of the file.
    """

    name: str
    cases: tuple[Case, ...]
    sha256: str


def read_suite(path: Path) -> Suite:
    """Read a suite: one JSON object a line. Blank lines are skipped.

    A case with ``expected`` and no ``keywords`` is scored by the entities of ``expected``; ``"keywords": []`` leaves
    it unscored.

    Raises:
        QueryFileError: The file is missing, empty, in another encoding than UTF-8, or a line is malformed; the
            message names the line.
    """
    cases: dict[str, Case] = {}
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        case = _case(json_object(line, where), where)
        if case.id in cases:
            raise QueryFileError(f"a second case named {case.id!r}", where=where, remedy="give each case its own id")
        cases[case.id] = case
    return Suite(path.stem, tuple(cases.values()), sha256_file(path))


def _case(fields: dict[str, Any], where: str) -> Case:
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise QueryFileError(
            f"no field of a case is named {unknown[0]!r}", where=where, remedy=f"there are {', '.join(_FIELDS)}"
        )
    name, expected = fields.get("id"), fields.get("expected")
    if not isinstance(name, str) or not name.strip():
        raise QueryFileError("the case has no id", where=where, remedy=f"write {_SHAPE}")
    if expected is not None and not isinstance(expected, str):
        raise QueryFileError("expected is no text", where=where, remedy=f"write {_SHAPE}")
    keywords = _keywords(fields["keywords"], where) if "keywords" in fields else entities(expected or "")
    return Case(
        id=name,
        query=query_of(fields, where),
        expected=expected,
        keywords=keywords,
        max_tokens=_max_tokens(fields.get("max_tokens", DEFAULT_MAX_TOKENS), where),
        labels=_labels(fields, where),
    )


def _keywords(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise QueryFileError("keywords is no list of texts", where=where, remedy=f"write {_SHAPE}")
    if any(not normalise(word) for word in value):
        # It would be found in every answer.
        raise QueryFileError("a keyword is empty", where=where, remedy="remove it")
    return tuple(dict.fromkeys(value))


def _max_tokens(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LONGEST_ANSWER:
        raise QueryFileError(f"max_tokens is {value!r}", where=where, remedy=f"give 1 to {_LONGEST_ANSWER}")
    return value


def _labels(fields: Mapping[str, Any], where: str) -> dict[str, str]:
    labels = {name: fields[name] for name in LABELS if fields.get(name) is not None}
    for name, value in labels.items():
        if not isinstance(value, str):
            raise QueryFileError(f"{name} is no text", where=where, remedy=f'write "{name}": "..."')
    return labels
