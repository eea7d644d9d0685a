"""Rule: a function that holds a model against a target, and whose docstring is its message and its documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chipwise.check.check_input import CheckInput
from chipwise.report.finding import Finding, Severity

_SECTIONS = ("Why", "Limit", "Remedy")


@dataclass(frozen=True)
class Hit:
    """What a rule's function found; the rest of the Finding comes from the rule's docstring.

    Attributes:
        severity: As of a Finding.
        where: The node, tensor or field.
        measured: The value found, with its unit.
        limit: The value allowed, with its unit.
        detail: What is special about this place, added to the message.
        remedy: A remedy for this place, instead of the rule's.
    """

    severity: Severity
    where: str
    measured: str
    limit: str
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule: called with an input it yields findings, and it changes nothing.

    Attributes:
        id: Its identifier, as findings show it.
        message: What is wrong, in one sentence.
        why: Why it matters.
        limit: Where the limit comes from.
        remedy: What to do about it.
        find: The function that looks.
    """

    id: str
    message: str
    why: str
    limit: str
    remedy: str
    find: Callable[[CheckInput], Iterator[Hit]]

    def __call__(self, given: CheckInput) -> Iterator[Finding]:
        """The findings of this rule."""
        for hit in self.find(given):
            message = f"{self.message.rstrip('.')}: {hit.detail}" if hit.detail else self.message.rstrip(".")
            remedy = (hit.remedy or self.remedy).rstrip(".")
            yield Finding(self.id, hit.severity, hit.where, hit.measured, hit.limit, message, remedy)


def rule(function: Callable[[CheckInput], Iterator[Hit]]) -> Rule:
    """Make a rule of a function.

    The rule's identifier is the function's name. The docstring's first paragraph is the message; the paragraphs that
    start with ``Why:``, ``Limit:`` and ``Remedy:`` are what they say.

    Raises:
        ValueError: The docstring lacks one of them.
    """
    paragraphs = [" ".join(one.split()) for one in inspect.cleandoc(function.__doc__ or "").split("\n\n")]
    sections = dict.fromkeys(_SECTIONS, "")
    for paragraph in paragraphs[1:]:
        name, _, text = paragraph.partition(": ")
        if name not in sections:
            raise ValueError(f"rule {function.__name__}: a paragraph starts with none of {', '.join(_SECTIONS)}")
        sections[name] = text
    missing = [name for name, text in sections.items() if not text]
    if missing or not paragraphs[0]:
        raise ValueError(f"rule {function.__name__}: the docstring lacks {', '.join(missing) or 'a message'}")
    return Rule(function.__name__, paragraphs[0], sections["Why"], sections["Limit"], sections["Remedy"], function)
