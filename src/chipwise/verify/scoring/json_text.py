"""JSON values in a free text: bare, fenced, in tags, or after words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chipwise.verify.scoring.written import says_something

PLACE = "\ue001"
"""Stands where a value stood, in a text whose values are taken out."""

# An answer is short; one with more values, or more beginnings of values that are none, is damage.
_MOST_VALUES = 64
_MOST_TRIES = 100

VALUE_START = r"[{](?=\s*(?:[\"'“”}]|\\+\"))|\[(?=\s*[\]\[{\"0-9tfnNI-])"
"""A regular expression of what may begin an object or an array."""

_START = re.compile(VALUE_START)
# What begins so and cannot be read was to be a value; [2 of 3] was not.
_MEANT = re.compile(r"[{\[]\s*(?:[{\[\"'“”]|\\+\")")
# Tags of calls, as several families of models write them.
_OPENING = (
    r"<\|?(?:tool_calls?(?:_section)?(?:_begin)?|function_calls?|python_tag|tool_use|tool|api_call)\|?>|<function=[^<>\s]{0,80}>|\[TOOL_CALLS\]"
    r"|<｜tool(?![^<>\s]{0,40}end｜)[^<>\s]{0,40}｜>"
)
_CLOSING = (
    r"</\|?(?:tool_calls?|function_calls?|function|tool_use|tool|api_call)\|?>|<\|/tool_calls?\|>"
    r"|<\|tool_calls?(?:_section)?_end\|>|<｜tool[^<>\s]{0,40}end｜>"
)
_TAG = re.compile(rf"{_OPENING}|{_CLOSING}", re.IGNORECASE)
_EMPTY_TAG = re.compile(rf"(?:{_OPENING})(?!\s*(?:```[A-Za-z]{{0,10}}\s*)?[<\[{PLACE}])", re.IGNORECASE)
_FENCE = re.compile(rf"```(?:[A-Za-z]{{1,10}})?\s?(?P<inside>[{PLACE}\s]+)```")


@dataclass(frozen=True)
class JsonText:
    """A text and the JSON in it.

    Attributes:
        values: The objects and arrays, the outermost ones in order.
        shape: The text with ``PLACE`` in the place of each, without fences and tags around them.
        is_broken: Whether something that was to be a value, or was tagged as one, cannot be read.
    """

    values: tuple[Any, ...]
    shape: str
    is_broken: bool

    @property
    def meant(self) -> tuple[Any, ...]:
        """The values but for citations, if there are others: a number in brackets in running text, as in note [1]."""
        if not says_something(self.shape):
            return self.values
        return tuple(value for value in self.values if not _is_citation(value)) or self.values


def twice_kept(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object; two values of one name, where they differ, as a tuple."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields and isinstance(fields[name], tuple):
            continue
        if name in fields and not _alike(fields[name], value):
            fields[name] = (fields[name], value)
        else:
            fields[name] = value
    return fields


def json_values(text: str) -> tuple[Any, ...]:
    """The objects and arrays of a text, the outermost ones in order; none if there are none.

    What stands around them (words, fences of Markdown, ``<tool_call>`` tags) is skipped. A value that is broken off is
    none. Of a field that comes twice with different values both are kept, as a tuple, which means nothing that could be
    expected.
    """
    return read_json(text).values


def read_json(text: str) -> JsonText:
    """The JSON of a text and what stands around it."""
    decoder = json.JSONDecoder(object_pairs_hook=twice_kept)
    values: list[Any] = []
    words: list[str] = []
    at = searched = tries = 0
    broken = False
    while (start := _START.search(text, searched)) is not None:
        if len(values) == _MOST_VALUES or tries == _MOST_TRIES:
            broken = True
            break
        try:
            value, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            tries += 1
            searched = start.end()
            broken = broken or _MEANT.match(text, start.start()) is not None
            continue
        values.append(value)
        words += [text[at : start.start()], PLACE]
        at = searched = end
    shape = "".join(words) + text[at:]
    broken = broken or _EMPTY_TAG.search(shape) is not None
    shape, tags = _TAG.subn(" ", shape)
    return JsonText(tuple(values), _FENCE.sub(r" \g<inside> ", shape), broken or (tags > 0 and not values))


def json_scalar(text: str) -> tuple[Any, ...]:
    """The number, text, true, false or null that a whole text is, bare or in a fence, in one element; else empty."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) > len("``````"):
        text = re.sub(r"^[A-Za-z]{1,10}\s", "", text[3:-3]).strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return () if isinstance(value, (dict, list)) else (value,)


def _is_citation(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1 and type(value[0]) is int


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, where true is no 1."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
