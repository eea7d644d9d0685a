"""A line of a suite as a case: what a user may write, and what is said of what they may not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chipwise.errors import InputError, QueryFileError
from chipwise.model.queries import query_of
from chipwise.verify.case import Case
from chipwise.verify.keywords import entities, normalise
from chipwise.verify.scoring.clock import time_of
from chipwise.verify.scoring.condition import holds
from chipwise.verify.scoring.quantity import quantity_of
from chipwise.verify.scoring.requirement import Requirement, bare
from chipwise.verify.scoring.settings import DIMENSIONS, ScorerSettings
from chipwise.verify.scoring.tool_call import call_of, has_broken_arguments

LABELS = ("domain", "lang", "kind")
"""Fields by which a report breaks its figures down."""

LONGEST_ANSWER = 65536
"""Tokens an answer may be given."""

_ASKS = ("keywords", "absent", "exact", "calls", "json")
_RULE = ("values", "rule", "then", "else")
_ALONE = ("id", "messages", "prompt", "text", "tools", "expected", "dimension", "clean", "fact", "max_tokens")
_FIELDS = (*_ALONE, *_ASKS, *_RULE, *LABELS)
_SHAPE = '{"id": "...", "messages": [...] or "prompt": "...", "expected": "...", "keywords": ["..."]}'

_CALL = 'write {"name": "...", "arguments": {...}}'


def case_of(fields: dict[str, Any], where: str, settings: ScorerSettings, max_tokens: int) -> Case:
    """The case that the fields of a line describe. A noise case that says nothing of its own asks for nothing yet.

    Args:
        fields: The line's fields.
        where: The file and the line, for messages.
        settings: How the suite scores.
        max_tokens: Length of an answer where the line names none.

    Raises:
        QueryFileError: A field is missing, unknown or malformed.
    """
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise QueryFileError(
            f"no field of a case is named {unknown[0]!r}", where=where, remedy=f"there are {', '.join(_FIELDS)}"
        )
    # A table written out has every column; what is null is not said. Of "json" alone null is a value.
    fields = {name: value for name, value in fields.items() if value is not None or name == "json"}
    name, expected, clean = fields.get("id"), fields.get("expected"), fields.get("clean")
    if not isinstance(name, str) or not name.strip():
        raise QueryFileError("the case has no id", where=where, remedy=f"write {_SHAPE}")
    for key, value in (("expected", expected), ("clean", clean)):
        if value is not None and not isinstance(value, str):
            raise QueryFileError(f"{key} is no text", where=where, remedy=f"write {_SHAPE}")
    dimension = _dimension(fields, settings, where)
    case = Case(
        id=name,
        query=query_of(fields, where),
        expected=expected,
        dimension=dimension,
        clean=clean,
        max_tokens=_max_tokens(fields.get("max_tokens", max_tokens), where),
        labels=_labels(fields, where),
    )
    settings = replace(settings, calls=replace(settings.calls, tools=frozenset(_tools(fields))))
    requirement = _requirement(fields, dimension or "keyword", case, settings, where)
    if requirement.asks:
        return replace(case, requirement=requirement, dimension=dimension or "keyword")
    if dimension not in (None, "noise", "keyword"):
        raise QueryFileError(
            f"nothing says which answer is right in this case of {dimension}", where=where,
            remedy="give keywords, calls, json, exact, a rule, or an expected answer",
        )  # fmt: skip
    if dimension == "noise":
        return replace(case, requirement=requirement)
    return replace(case, dimension=None)


def _tools(fields: Mapping[str, Any]) -> Iterator[str]:
    """Names of tools that a line has: those it offers, and those that either branch of its rule calls."""
    for tool in fields.get("tools") or ():
        yield str(tool.get("function", tool)["name"])
    for branch in (fields.get("then"), fields.get("else")):
        listed = branch.get("calls") if isinstance(branch, dict) else None
        for made in map(call_of, listed if isinstance(listed, list) else [listed]):
            if made is not None:
                yield made.name


def _dimension(fields: Mapping[str, Any], settings: ScorerSettings, where: str) -> str | None:
    """The dimension that is named, or that the fields tell; None if they leave it open."""
    signs = {"clean": "noise", "fact": "long_range", "rule": "logic", "calls": "logic", "json": "logic"}
    told = next((dimension for sign, dimension in signs.items() if sign in fields), None)
    named = fields.get("dimension", told)
    if named is None:
        return None
    if named not in DIMENSIONS:
        raise QueryFileError(
            f"no dimension is named {named!r}", where=where, remedy=f"there are {', '.join(DIMENSIONS)}"
        )
    if named not in settings.dimensions:
        raise QueryFileError(
            f"a case of {named}, which suite.toml does not list", where=where,
            remedy=f"add [dimensions.{named}] to suite.toml",
        )  # fmt: skip
    if (named == "noise") != ("clean" in fields):
        raise QueryFileError(
            "a case of noise names its clean twin, and no other case does", where=where,
            remedy='write "dimension": "noise", "clean": "ID OF THE CASE WITHOUT NOISE"',
        )  # fmt: skip
    return str(named)


def _requirement(
    fields: Mapping[str, Any], dimension: str, case: Case, settings: ScorerSettings, where: str
) -> Requirement:
    if any(name in fields for name in _RULE):
        return _by_rule(fields, dimension, settings, where)
    asked = {name: fields[name] for name in _ASKS if name in fields}
    if "fact" in fields:
        asked.setdefault("keywords", _facts(fields["fact"], case, settings, where))
    if asked or dimension == "noise":
        return _asks(asked, dimension, settings, where)
    return _by_answer(case.expected or "", dimension, settings, where)


def _by_answer(expected: str, dimension: str, settings: ScorerSettings, where: str) -> Requirement:
    """What the expected answer tells: its JSON where logic is judged, else its entities."""
    same = settings.same_in(dimension)
    if dimension == "logic" and expected.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(expected)
        except (ValueError, RecursionError):
            value = None
        items = value if isinstance(value, list) else [value]
        calls = tuple(call for call in map(call_of, items) if call is not None)
        if any(map(has_broken_arguments, items)):
            raise QueryFileError("the expected call's arguments are no JSON object", where=where, remedy=_CALL)
        if calls and len(calls) == len(items):
            return Requirement(calls=calls, same=same, rules=settings.calls)
        if value is not None:
            return Requirement(json=(value,), same=same)
    return Requirement(tuple(word for word in entities(expected) if _type(word) in settings.types), same=same)


def _by_rule(fields: Mapping[str, Any], dimension: str, settings: ScorerSettings, where: str) -> Requirement:
    """The branch of a rule that its condition chooses on the case's values."""
    rule, values = fields.get("rule"), fields.get("values", {})
    if not isinstance(rule, str) or not isinstance(values, dict) or "then" not in fields:
        raise QueryFileError(
            "a rule needs its condition, values and what follows", where=where,
            remedy='write "values": {"t": 31}, "rule": "t > 26", "then": {...}, "else": {...}',
        )  # fmt: skip
    mixed = [name for name in _ASKS if name in fields]
    if mixed:
        raise QueryFileError(f"{mixed[0]} stands beside a rule", where=where, remedy="put it into then and else")
    try:
        branch = "then" if holds(rule, values) else "else"
        if "else" in fields:
            # The branch not taken is read, too: a mistake in it would show with other values only.
            _asks(fields["else" if branch == "then" else "then"], dimension, settings, where)
    except InputError as e:
        if isinstance(e, QueryFileError):
            raise
        raise QueryFileError(e.what, where=where, remedy=e.remedy) from e
    if branch not in fields:
        raise QueryFileError("the rule does not hold and there is no else", where=where, remedy="write it")
    return _asks(fields[branch], dimension, settings, where)


def _asks(asked: Any, dimension: str, settings: ScorerSettings, where: str) -> Requirement:
    if not isinstance(asked, dict) or any(name not in _ASKS for name in asked):
        raise QueryFileError(
            "what an answer must say is no object of the known fields", where=where,
            remedy=f"use {', '.join(_ASKS)}",
        )  # fmt: skip
    exact = asked.get("exact")
    if exact is not None and not (isinstance(exact, str) and normalise(exact)):
        raise QueryFileError("exact is no text", where=where, remedy='write "exact": "the whole answer"')
    if exact is not None and not bare(exact):
        # An empty answer would be equal to it.
        raise QueryFileError(
            f"exact is {exact!r}, nothing but punctuation, which does not count", where=where,
            remedy="write the words of the whole answer",
        )  # fmt: skip
    calls = None
    if "calls" in asked:
        listed = asked["calls"] if isinstance(asked["calls"], list) else [asked["calls"]]
        if any(map(has_broken_arguments, listed)):
            raise QueryFileError("a call's arguments are no JSON object", where=where, remedy=_CALL)
        made = [call_of(value) for value in listed]
        calls = tuple(call for call in made if call is not None and call.name.strip())
        if len(calls) != len(made):
            raise QueryFileError("a call names no tool", where=where, remedy=_CALL)
    return Requirement(
        keywords=_words(asked.get("keywords", []), "keywords", where),
        absent=_words(asked.get("absent", []), "absent", where),
        exact=exact,
        calls=calls,
        json=(asked["json"],) if "json" in asked else (),
        same=settings.same_in(dimension),
        rules=settings.calls,
    )


def _facts(value: Any, case: Case, settings: ScorerSettings, where: str) -> list[str]:
    """The facts of a long record, which must stand near its beginning."""
    facts = list(_words([value] if isinstance(value, str) else value, "fact", where))
    record = normalise(case.text)
    for fact in facts:
        at = record.find(normalise(fact))
        if at < 0:
            raise QueryFileError(f"the fact {fact!r} is not in the record", where=where, remedy="copy it from there")
        if at > settings.fact_within * len(record):
            share = f"the first {settings.fact_within:.0%} of the record"
            raise QueryFileError(
                f"the fact {fact!r} stands behind {share}", where=where,
                remedy="move it, or set fact_within in [dimensions.long_range]",
            )  # fmt: skip
    return facts


def _words(value: Any, name: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise QueryFileError(f"{name} is no list of texts", where=where, remedy=f"write {_SHAPE}")
    if any(not normalise(word) for word in value):
        # It would be found in every answer.
        what = "a keyword" if name == "keywords" else f"a text of {name}"
        raise QueryFileError(f"{what} is empty", where=where, remedy="remove it")
    if name != "absent" and (marks := next((word for word in value if not bare(word)), None)) is not None:
        raise QueryFileError(
            f"{marks!r} of {name} is nothing but punctuation", where=where, remedy="write what an answer must say"
        )
    return tuple(dict.fromkeys(value))


def _type(word: str) -> str:
    if time_of(word) is not None:
        return "time"
    if quantity_of(word) is not None:
        return "number"
    return "id" if any(letter.isdigit() for letter in word) else "quoted"


def _max_tokens(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LONGEST_ANSWER:
        raise QueryFileError(f"max_tokens is {value!r}", where=where, remedy=f"give 1 to {LONGEST_ANSWER}")
    return value


def _labels(fields: Mapping[str, Any], where: str) -> dict[str, str]:
    labels = {name: fields[name] for name in LABELS if fields.get(name) is not None}
    for name, value in labels.items():
        if not isinstance(value, str):
            raise QueryFileError(f"{name} is no text", where=where, remedy=f'write "{name}": "..."')
    return labels
