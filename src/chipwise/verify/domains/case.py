"""DomainCase: one sentence said to an agent, the answer it must give, and what that answer must hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chipwise.verify.domains.draw import Draw

LANGUAGES = ("en", "zh")
SPLITS = ("train", "heldout")
HELD_OUT_ONE_IN = 10  # a tenth of all texts never reaches training


@dataclass(frozen=True)
class DomainCase:
    """One scored case.

    Attributes:
        id: domain, language, template and a digest of the messages; stable across runs.
        domain: name of the generator.
        lang: "en" or "zh".
        messages: chat messages, each with "role" and "content".
        expected: the one right answer.
        keywords: pieces of `expected` that a faithful answer must reproduce.
        kind: "tool_call" (compact JSON) or "summary" (one sentence).
    """

    id: str
    domain: str
    lang: str
    messages: list[dict[str, str]]
    expected: str
    keywords: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Draft:
    """What an intent writes: a case before it has a name and a split."""

    template: str
    user: str
    expected: str
    keywords: tuple[str, ...]
    kind: str = "tool_call"
    system: str = ""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat messages of this draft."""
        head = [{"role": "system", "content": self.system}] if self.system else []
        return [*head, {"role": "user", "content": self.user}]


Intent = Callable[[Draw, str], Draft]


class Term(NamedTuple):
    """A word of a domain: its identifier in tool calls and its name in both languages."""

    id: str
    en: str
    zh: str

    def name(self, lang: str) -> str:
        """The word as a person says it."""
        return self.zh if lang == "zh" else self.en


@dataclass(frozen=True)
class Phrasing:
    """The ways to say one intent: format strings by language."""

    name: str
    en: Sequence[str]
    zh: Sequence[str]

    def render(self, draw: Draw, lang: str, values: Mapping[str, object]) -> tuple[str, str]:
        """Choose a wording and fill it in; returns (template name, text)."""
        texts = self.zh if lang == "zh" else self.en
        index = draw.integer(0, len(texts) - 1)
        return f"{self.name}{index}", texts[index].format_map(values)


@dataclass(frozen=True)
class ToolCall:
    """A tool call written as compact JSON: evidence, tool, arguments, each in the order given."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    evidence: Mapping[str, object] = field(default_factory=dict)

    def text(self) -> str:
        """The answer text."""
        body = {**self.evidence, "tool": self.tool, **self.arguments}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))

    def keywords(self) -> tuple[str, ...]:
        """The tool name and every scalar beside it, as they stand in `text`."""
        words = [self.tool]
        for value in [*self.evidence.values(), *self.arguments.values()]:
            items = value if isinstance(value, list) else [value]
            words += [item if isinstance(item, str) else json.dumps(item) for item in items]
        return tuple(dict.fromkeys(words))


def call_draft(template: str, user: str, call: ToolCall, system: str = "") -> Draft:
    """A draft whose answer is one tool call."""
    return Draft(template, user, call.text(), call.keywords(), system=system)


def digest_of(messages: list[dict[str, str]]) -> str:
    """Hex digest of the messages' text."""
    text = json.dumps(messages, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def split_of(messages: list[dict[str, str]]) -> str:
    """The split a text belongs to, by its digest: the two splits can never share one."""
    return "heldout" if int(digest_of(messages)[:8], 16) % HELD_OUT_ONE_IN == 0 else "train"
