"""Entity: something an answer must reproduce, as text or by what it means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from chipwise.verify.keywords import as_compared, missing_keywords
from chipwise.verify.scoring.clock import time_of, times_in
from chipwise.verify.scoring.numerals import with_digits
from chipwise.verify.scoring.quantity import Quantity, quantities_in, quantity_of
from chipwise.verify.scoring.written import plain

NORMALISATIONS = ("time", "unit", "numeral", "separator")
"""What may be taken as the same beyond width, case and spaces: 7:30 pm and 19:30; 1.5 kg and 1500 g; 二十六 and 26;
cam-12, cam_12 and cam 12."""

USUAL = frozenset(NORMALISATIONS[:3])
"""What a suite.toml takes as the same unless it says otherwise."""

LITERAL: frozenset[str] = frozenset()
"""What a plain .jsonl suite takes as the same: width, case and spaces only."""

_SEPARATORS = str.maketrans("_-", "  ")


@dataclass(frozen=True)
class _Reading:
    """An answer as it is understood."""

    texts: tuple[str, ...]
    spaced: tuple[str, ...]
    times: tuple[int, ...]
    quantities: tuple[Quantity, ...]


def missing_entities(wanted: Iterable[str], answer: str, same: frozenset[str] = USUAL) -> tuple[str, ...]:
    """What an answer does not reproduce.

    Args:
        wanted: What it must hold: identifiers, times, codes, numbers with or without units, words.
        answer: The answer.
        same: What is taken as the same, of NORMALISATIONS.
    """
    return tuple(entity for entity in wanted if not _holds(_read(answer, same), entity, same))


@lru_cache(maxsize=512)
def _read(answer: str, same: frozenset[str]) -> _Reading:
    answer = plain(answer)
    texts = [answer]
    if "numeral" in same:
        texts.append(with_digits(answer))
    spaced = tuple(text.translate(_SEPARATORS) for text in texts) if "separator" in same else ()
    return _Reading(
        tuple(dict.fromkeys(texts)),
        spaced,
        times_in(answer),
        quantities_in(answer, numerals="numeral" in same) if "unit" in same else (),
    )


def _holds(reading: _Reading, entity: str, same: frozenset[str]) -> bool:
    forms = [entity]
    if "numeral" in same:
        forms.append(with_digits(entity))
    texts = reading.texts
    if "separator" in same and any(letter.isalpha() for letter in entity):
        # A number keeps its minus.
        texts += reading.spaced
        forms += [form.translate(_SEPARATORS) for form in forms]
    time = time_of(entity)
    if time is not None and ("time" in same or time not in reading.times):
        # 7:30 stands in "7:30 pm", but is another time.
        return time in reading.times
    if any(not missing_keywords([form], text) for form in dict.fromkeys(forms) for text in texts):
        return True
    if "unit" in same:
        quantity = quantity_of(entity, numerals="numeral" in same)
        return quantity is not None and any(found.says(quantity) for found in reading.quantities)
    return False


def same_value(one: str, other: str, same: frozenset[str] = USUAL) -> bool:
    """Whether two whole texts mean the same: equal but for width, case and spaces, or the same time or quantity."""
    if as_compared(one) == as_compared(other):
        return True
    if "separator" in same and as_compared(one).translate(_SEPARATORS) == as_compared(other).translate(_SEPARATORS):
        return True
    if "time" in same:
        times = time_of(one), time_of(other)
        if None not in times:
            return times[0] == times[1]
    if "unit" in same:
        ours, theirs = (quantity_of(text, numerals="numeral" in same) for text in (one, other))
        if ours is not None and theirs is not None:
            return ours.says(theirs)
    return "numeral" in same and as_compared(with_digits(one)) == as_compared(with_digits(other))
