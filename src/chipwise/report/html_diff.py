"""Two answers side by side, what differs marked."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from markupsafe import Markup, escape

# Words, numbers, single Chinese characters, single marks, white space.
_PIECES = re.compile(r"[A-Za-z_]+|\d+|[^\S\n]+|\n|.", re.DOTALL)

MAX_PIECES = 2000
"""Longer answers are shown unmarked from there on: comparing costs the product of both lengths."""


def mark_differences(reference: str, candidate: str) -> tuple[Markup, Markup]:
    """Both texts as HTML: what only the reference has in ``<del>``, what only the candidate has in ``<ins>``."""
    ours, theirs = _PIECES.findall(reference), _PIECES.findall(candidate)
    tails = "".join(ours[MAX_PIECES:]), "".join(theirs[MAX_PIECES:])
    ours, theirs = ours[:MAX_PIECES], theirs[:MAX_PIECES]
    left, right = Markup(), Markup()
    for equal, one, other in _runs(ours, theirs):
        left += escape(one) if equal else _wrap("del", one)
        right += escape(other) if equal else _wrap("ins", other)
    return left + escape(tails[0]), right + escape(tails[1])


def _runs(ours: list[str], theirs: list[str]) -> list[tuple[bool, str, str]]:
    """Runs that are equal or differ; white space between two that differ joins them, so that phrases stay whole."""
    # autojunk, which sets in at 200 pieces, keeps an answer that repeats one word for ever from taking minutes.
    codes = SequenceMatcher(None, ours, theirs).get_opcodes()
    runs: list[tuple[bool, str, str]] = []
    for i, (kind, a, b, c, d) in enumerate(codes):
        one, other = "".join(ours[a:b]), "".join(theirs[c:d])
        equal = kind == "equal" and not (one.isspace() and 0 < i < len(codes) - 1)
        if runs and not equal and not runs[-1][0]:
            _, before, behind = runs.pop()
            one, other = before + one, behind + other
        runs.append((equal, one, other))
    return runs


def _wrap(tag: str, text: str) -> Markup:
    return Markup("<{0}>{1}</{0}>").format(Markup(tag), text) if text else Markup()
