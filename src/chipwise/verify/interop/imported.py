"""Lines of a suite from another tool's JSONL file, whichever kind it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chipwise.errors import QueryFileError
from chipwise.model.queries import json_object, numbered_lines
from chipwise.verify.case import DEFAULT_MAX_TOKENS
from chipwise.verify.case_line import case_of
from chipwise.verify.domains.noise import language
from chipwise.verify.interop.chat_log import Line, chat_case, is_chat
from chipwise.verify.interop.lm_eval import is_lm_eval, lm_eval_case
from chipwise.verify.scoring.settings import ScorerSettings

FORMATS: dict[str, tuple[Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any]], Line | None]]] = {
    "chat": (is_chat, chat_case),
    "lm-eval": (is_lm_eval, lm_eval_case),
}
"""By name: whether a line is of the format, and the case it makes."""


@dataclass(frozen=True)
class Imported:
    """What a file gave.

    Attributes:
        format: The format it was read as.
        lines: The cases.
        left_out: Lines that make no case, by number.
    """

    format: str
    lines: tuple[Line, ...]
    left_out: tuple[int, ...]


def import_cases(path: Path, format_: str | None = None) -> Imported:
    """Read the cases of another tool's file.

    Args:
        path: A JSONL file.
        format_: A name in FORMATS; None tells it by the first line.

    Raises:
        QueryFileError: The file is malformed, of no known format, makes no case, or one that no suite may hold; the
            error names the line of this file.
    """
    rows = [(number, json_object(line, f"{path}:{number}")) for number, line in numbered_lines(path)]
    chosen = format_ or next((name for name, (knows, _) in FORMATS.items() if knows(rows[0][1])), None)
    if chosen is None:
        raise QueryFileError(
            f"a line with {', '.join(rows[0][1]) or 'nothing'} is of no known format", where=f"{path}:{rows[0][0]}",
            remedy="give a chat log with messages, or lm-evaluation-harness samples or documents",
        )  # fmt: skip
    lines: list[Line] = []
    left_out: list[int] = []
    names = _ids(rows)
    for number, fields in rows:
        made = FORMATS[chosen][1](fields)
        if made is None:
            left_out.append(number)
            continue
        line = {"id": names[number], "lang": language(repr(made)), **made}
        case_of(line, f"{path}:{number}", ScorerSettings(), DEFAULT_MAX_TOKENS)
        lines.append(line)
    if not lines:
        raise QueryFileError(
            f"no line makes a case as {chosen}", where=str(path), remedy="a case needs a question and its answer"
        )
    return Imported(chosen, tuple(lines), tuple(left_out))


def _ids(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[int, str]:
    """A name for each line: its own where it is the first with it, else one that no line has."""
    own = {number: _own_id(fields) for number, fields in rows}
    taken = set(own.values())
    given: set[str] = set()
    names: dict[int, str] = {}
    for number, name in own.items():
        if not name or name in given:
            name = f"line-{number}"
            while name in taken:
                name += "-again"
        given.add(name)
        taken.add(name)
        names[number] = name
    return names


def _own_id(fields: Mapping[str, Any]) -> str:
    named = next((fields[key] for key in ("id", "custom_id", "doc_id", "task_id") if fields.get(key) is not None), None)
    return re.sub(r"\s+", "-", str(named)).strip("-") if isinstance(named, (str, int)) else ""
