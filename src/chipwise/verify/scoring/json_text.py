"""JSON values in a free text: bare, fenced, in tags, or after words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

# An answer is short; a value nested deeper than this is damage.
_MOST_VALUES = 64
_MOST_TRIES = 1000


def twice_kept(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object; several values of one name, where they differ, as a tuple."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields and fields[name] != value:
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
    decoder = json.JSONDecoder(object_pairs_hook=twice_kept)
    found: list[Any] = []
    at = 0
    for _ in range(_MOST_TRIES):
        if len(found) == _MOST_VALUES:
            break
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            break
        try:
            value, at = decoder.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            at = min(starts) + 1
            continue
        found.append(value)
    return tuple(found)
