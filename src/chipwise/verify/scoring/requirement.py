"""Requirement: what an answer must say, must not say, and call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chipwise.verify.keywords import as_compared
from chipwise.verify.scoring.entity import LITERAL, missing_entities
from chipwise.verify.scoring.json_meaning import differences
from chipwise.verify.scoring.json_text import json_values
from chipwise.verify.scoring.same_words import same_words
from chipwise.verify.scoring.tool_call import CallRules, ToolCall, call_differences
from chipwise.verify.scoring.written import says_something

# Between digits, and before one, a mark is part of the number: 1.5 is no 1:5, .5 no 5.
_PUNCTUATION = re.compile(r"(?:[\s;!?。、\"`]|[.,:](?![0-9])|(?<![0-9])'|'(?![0-9])|(?<=[^\s0-9])[,:](?=[0-9]))+")


@dataclass(frozen=True)
class Requirement:
    """What makes an answer right; all that is given must hold.

    Attributes:
        keywords: What it must reproduce.
        absent: What it must not say; it must say something.
        exact: The whole answer, but for width, case, spaces and punctuation at its end; None if it may say more.
        calls: The tool calls it must make; None if none are asked for. ``()`` asks that it makes none.
        json: A JSON value it must hold, in one element; empty if none is asked for.
        same: What is taken as the same, see ``entity.NORMALISATIONS``.
        rules: How calls are compared.
    """

    keywords: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    exact: str | None = None
    calls: tuple[ToolCall, ...] | None = None
    json: tuple[Any, ...] = ()
    same: frozenset[str] = LITERAL
    rules: CallRules = field(default_factory=CallRules)

    @property
    def asks(self) -> bool:
        """Whether it asks for anything."""
        return bool(self.keywords or self.absent or self.json) or self.exact is not None or self.calls is not None

    def misses(self, answer: str) -> tuple[str, ...]:
        """What is wrong with an answer, in words; empty if it is right."""
        return tuple(dict.fromkeys(self._misses(answer)))

    def _misses(self, answer: str) -> Iterator[str]:
        if not (self.keywords or self.exact or self.calls or self.json) and not self._is_said(answer):
            # A model that says nothing says nothing wrong, and does not do its job.
            yield "says nothing"
        yield from missing_entities(self.keywords, answer, self.same)
        absent = set(missing_entities(self.absent, answer, self.same))
        yield from (f"says {text}" for text in self.absent if text not in absent)
        if self.exact is not None and bare(self.exact) != bare(answer):
            yield f"is not {self.exact}"
        if self.calls is not None:
            yield from call_differences(self.calls, answer, self.rules)
        if self.json:
            found = json_values(answer)
            yield from differences(self.json[0], found[0], same=self.same) if found else ("no JSON",)

    def _is_said(self, answer: str) -> bool:
        """Whether the answer says anything; an empty list of calls does where none is asked for."""
        return says_something(answer) or (self.calls is not None and [] in json_values(answer))


def same_answer(one: str, other: str, same: frozenset[str]) -> bool:
    """Whether two answers say the same where no truth is known: the same JSON, else the same text but for
    punctuation, else the same words and values (``same_words``).
    """  # noqa: D205
    values = json_values(one), json_values(other)
    if values[0] or values[1]:
        return len(values[0]) == len(values[1]) and not differences(list(values[0]), list(values[1]), same=same)
    if not (says_something(one) and says_something(other)):
        return False
    return bare(one) == bare(other) or same_words(one, other, same)


def bare(text: str) -> str:
    """The text as ``exact`` compares it: without punctuation, but for marks inside numbers."""
    return _PUNCTUATION.sub(" ", as_compared(text)).strip()
