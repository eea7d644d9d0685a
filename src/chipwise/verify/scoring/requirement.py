"""Requirement: what an answer must say, must not say, and call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chipwise.verify.keywords import as_compared
from chipwise.verify.scoring.entity import LITERAL, missing_entities
from chipwise.verify.scoring.json_meaning import differences
from chipwise.verify.scoring.json_text import PLACE, json_scalar, json_values, read_json
from chipwise.verify.scoring.same_words import same_words
from chipwise.verify.scoring.thought import said
from chipwise.verify.scoring.tool_call import CallRules, ToolCall, call_differences
from chipwise.verify.scoring.written import plain, says_something

# Between digits, and before one, a mark is part of the number: 1.5 is no 1:5, .5 no 5.
_PUNCTUATION = re.compile(r"(?:[\s;!?。、\"`]|[.,:](?![0-9])|(?<![0-9])'|'(?![0-9])|(?<=[^\s0-9])[,:](?=[0-9]))+")

_QUOTES = str.maketrans({**dict.fromkeys("“”„‟", '"'), **dict.fromkeys("‘’‚‛", "'")})
_AT_BOTH_ENDS = " «»「」『』《》〈〉"
_AT_THE_END = _AT_BOTH_ENDS + "~"
_BRACKETS = ("([【", ")]】")

# 第 3 层 is 第3层, 26 °C is 26°C; 1 5 is no 15.
_BESIDE_CJK = re.compile(r"(?<=[\u3400-\u9fff]) (?=\S)|(?<=\S) (?=[\u3400-\u9fff])|(?<=[0-9]) (?=[%°])")

# "Sure:" before JSON is "Sure,".
_COLON = re.compile(rf"[:：]\s*{PLACE}")

# Longer answers are compared as they stand: what reads numbers and words need not be linear.
_LONGEST = 8192


@dataclass(frozen=True)
class Requirement:
    """What makes an answer right; all that is given must hold.

    Attributes:
        keywords: What it must reproduce.
        absent: What it must not say; it must say something.
        exact: The whole answer, but for width, case, spaces and punctuation; None if it may say more.
        calls: The tool calls it must make; None if none are asked for. ``()`` asks that it makes none.
        json: A JSON value it must hold, in one element; empty if none is asked for. A number, a text, true, false and
            null must be the whole answer.
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
        """What is wrong with an answer, in words; empty if it is right. What the model thought is not its answer."""
        return tuple(dict.fromkeys(self._misses(said(answer))))

    def _misses(self, answer: str) -> Iterator[str]:
        if not (self.keywords or self.exact or self.calls or self.json) and not self._is_said(answer):
            # A model that says nothing says nothing wrong, and does not do its job.
            yield "says nothing"
        yield from missing_entities(self.keywords, answer, self.same)
        absent = set(missing_entities(self.absent, answer, self.same))
        yield from (f"says {text}" for text in self.absent if text not in absent)
        if self.exact is not None and not _is_exact(self.exact, answer):
            yield f"is not {self.exact}"
        if self.calls is not None:
            yield from call_differences(self.calls, answer, self.rules)
        if self.json:
            yield from self._differing(answer)

    def _differing(self, answer: str) -> tuple[str, ...]:
        """What differs in the JSON of an answer; several values must all be right."""
        expected = self.json[0]
        if not isinstance(expected, (dict, list)):
            found = json_scalar(answer)
        else:
            read = read_json(answer)
            if read.is_broken:
                return ("JSON is broken off",)
            found = read.meant
        if not found:
            return ("no JSON",)
        return next(filter(None, (differences(expected, value, same=self.same) for value in found)), ())

    def _is_said(self, answer: str) -> bool:
        """Whether the answer says anything; an empty list of calls does where none is asked for."""
        return says_something(answer) or (self.calls is not None and [] in json_values(answer))


def same_answer(one: str, other: str, same: frozenset[str]) -> bool:
    """Whether two answers say the same where no truth is known.

    The same JSON, with the same words around it; else the same text but for punctuation, or the same words and values
    (``same_words``). What the models thought does not count. Long texts are the same only if they are alike but for
    spaces.
    """
    one, other = said(one), said(other)
    ours, theirs = read_json(one), read_json(other)
    values = list(ours.values), list(theirs.values)
    if any(differences(*pair, same=same) for pair in (values, values[::-1])):
        return False
    if max(len(ours.shape), len(theirs.shape)) > _LONGEST:
        return ours.shape.split() == theirs.shape.split() and says_something(one)
    if ours.values:
        one, other = (_COLON.sub(f", {PLACE}", read.shape) for read in (ours, theirs))
        return same_words(one, other, same)
    if not (says_something(one) and says_something(other)):
        return False
    return bare(one) == bare(other) or same_words(one, other, same)


def _is_exact(exact: str, answer: str) -> bool:
    answer = " ".join(answer.split())
    return len(answer) <= max(_LONGEST, 2 * len(exact)) and bare(exact) == bare(answer)


def bare(text: str) -> str:
    """The text as ``exact`` compares it: without punctuation, but for marks inside numbers."""
    text = _PUNCTUATION.sub(" ", as_compared(plain(text)).translate(_QUOTES)).lstrip(_AT_BOTH_ENDS).rstrip(_AT_THE_END)
    text = _BESIDE_CJK.sub("", text)
    while text.startswith("**") and text.endswith("**") and len(text) > len("****"):
        text = text[2:-2].strip()
    # A bracket at a word is one around it, or that of a list: (B), B). A smile is none.
    if text[:1] in _BRACKETS[0] and text[1:2].isalnum():
        text = text[1:]
    if text[-1:] in _BRACKETS[1] and text[-2:-1].isalnum():
        text = text[:-1]
    return text
