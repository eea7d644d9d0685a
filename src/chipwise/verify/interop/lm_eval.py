"""lm-evaluation-harness tasks as cases: its log of samples, and the data sets its tasks read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Line = dict[str, Any]

_QUESTIONS = ("question", "query", "prompt", "input", "problem", "instruction")
_ANSWERS = ("target", "answer", "answerKey", "gold", "label", "output", "ideal")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# How gsm8k marks its results.
_RESULT = re.compile(r"####\s*(.+?)\s*$")


def is_lm_eval(fields: Mapping[str, Any]) -> bool:
    """Whether a line is a sample of a log, or a document with a question and its answer."""
    return _is_sample(fields) or (_first(fields, _QUESTIONS) is not None and _first(fields, _ANSWERS) is not None)


def lm_eval_case(fields: Mapping[str, Any]) -> Line | None:
    """The case of a line; None if it has no question or no answer that one can look for.

    Of several choices the letters are asked for, and the whole answer must be the right one: named by its letter, its
    text, or its index from 0, as a number or in digits. Choices of which none is told make no case. Free answers must
    hold the target: of a worked solution (gsm8k) its result.
    """
    if _is_sample(fields):
        doc = fields["doc"]
        made = _of_choices(doc) if isinstance(doc, Mapping) else None
        return made or _of_sample(fields)
    # Without its choices the question would ask for something else.
    return _of_choices(fields) if fields.get("choices") else _of_question(fields)


def _is_sample(fields: Mapping[str, Any]) -> bool:
    return "doc" in fields and "target" in fields and "arguments" in fields


def _of_sample(fields: Mapping[str, Any]) -> Line | None:
    arguments, prompt = fields["arguments"], None
    if isinstance(arguments, list) and len(arguments) == 1 and isinstance(arguments[0], list) and arguments[0]:
        prompt = arguments[0][0]
    elif isinstance(arguments, Mapping) and list(arguments) == ["gen_args_0"]:
        given = arguments["gen_args_0"]
        prompt = given.get("arg_0") if isinstance(given, Mapping) else None
    return _free(prompt, fields["target"])


def _of_question(fields: Mapping[str, Any]) -> Line | None:
    return _free(_first(fields, _QUESTIONS), _first(fields, _ANSWERS))


def _free(prompt: Any, target: Any) -> Line | None:
    target = target[0] if isinstance(target, list) and target else target
    if isinstance(target, (int, float)) and not isinstance(target, bool):
        target = str(target)
    if not isinstance(prompt, str) or not prompt.strip() or not isinstance(target, str) or not target.strip():
        return None
    result = _RESULT.search(target)
    wanted = result[1] if result else target.strip()
    return {"prompt": prompt, "expected": target.strip(), "keywords": [wanted]}


def _of_choices(doc: Mapping[str, Any]) -> Line | None:
    question, choices, answer = _first(doc, _QUESTIONS), doc.get("choices"), _first(doc, _ANSWERS)
    labels: Sequence[Any] = _LETTERS
    if isinstance(choices, Mapping):
        named, choices = choices.get("label"), choices.get("text")
        labels = named if isinstance(named, list) and named else _LETTERS
    if not isinstance(question, str) or not isinstance(choices, list) or not 2 <= len(choices) <= len(_LETTERS):
        return None
    at = _index(answer, choices, labels)
    if at is None:
        return None
    options = "\n".join(f"{letter}. {choice}" for letter, choice in zip(_LETTERS, choices, strict=False))
    prompt = f"{question.strip()}\n{options}\nAnswer with the letter alone."
    return {"prompt": prompt, "expected": _LETTERS[at], "exact": _LETTERS[at], "max_tokens": 8}


def _index(answer: Any, choices: Sequence[Any], labels: Sequence[Any]) -> int | None:
    if isinstance(answer, bool):
        return None
    if isinstance(answer, int):
        return answer if 0 <= answer < len(choices) else None
    known = list(labels)[: len(choices)]
    if isinstance(answer, str) and answer in choices and answer.strip().isdecimal() and answer not in known:
        # "1" of the choices 1, 2, 3 may be the first by its text or the second by its index.
        at, text = int(answer), list(choices).index(answer)
        return text if at == text or at >= len(choices) else None
    for options in (known, list(choices)):
        if answer in options:
            return options.index(answer)
    if not isinstance(answer, str):
        return None
    letter = answer.strip().strip("().:").upper()
    if letter in known:
        return known.index(letter)
    if (
        known == list(_LETTERS[: len(choices)])
        and letter.isascii()
        and letter.isdecimal()
        and int(letter) < len(choices)
    ):
        return int(letter)
    return None


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) not in (None, "")), None)
