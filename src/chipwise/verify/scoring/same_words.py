"""Whether two answers say the same in other words or another order, where no truth is known."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chipwise.verify.scoring.clock import readings
from chipwise.verify.scoring.halves import with_decimals
from chipwise.verify.scoring.json_text import PLACE
from chipwise.verify.scoring.numerals import with_digits
from chipwise.verify.scoring.quantity import Quantity, placed_quantities
from chipwise.verify.scoring.written import plain, with_case_marks, with_signs

# What an answer may have or leave out. "Yes", "now" and "not" are none: they say something.
_LEAD = re.compile(
    r"(?:^|(?<=[.!?;,。\n]))\s*(?:(?:ok|okay|sure|alright|uh|um|er|ah|oh|well|so|hey|嗯|呃|哦|喂|那个|就是)\s*[,.!。、]+\s*|好的[,.!。、]*|请)+",
    re.IGNORECASE,
)
_TAIL = re.compile(r"[了吧呢啊呀](?=\s*(?:[,.!?;。]|$))")
_ARTICLE = re.compile(r"(?<![\w-])(?:[Tt]he|[Aa]n|a|[Pp]lease)(?![\w-]|\s?[0-9])")

# Arrows, signs of mathematics, ticks, crosses and emoji say something.
_SYMBOL = "%°+*/<>=#&@$€£¥±×÷^|\u2190-\u22ff\u2300-\u27bf\u2900-\u2bff\U0001f000-\U0001faff\ue000\ue001"
_WORD = re.compile(rf"[a-z0-9_]+(?:[.'/:-][a-z0-9_]+)*|[^\W_]|[{_SYMBOL}]|~(?=\s?[0-9])|(?<![a-z0-9])-(?=[0-9])")
_SPACES = re.compile(r"\s+")
_ZEROS = re.compile(r"(?<![\w.])(\d+)(?:\.0+|(\.\d*?[1-9])0+)(?![\d.])")
_DIGIT = re.compile("[0-9]")
_DIGITS = re.compile("-?[0-9][0-9.,]*")
# Where one of these is said, the order of the words tells what it belongs to.
_NEGATION = re.compile(
    r"(?<![a-z])(?:not|no|never|none|neither|nor|without|cannot|instead|but|except|than|if|unless|[a-z]+n't)(?![a-z])"
    "|[不没未无非别勿否莫比而除若]|如果"
)
_OPPOSITES = tuple(
    (re.compile(one), re.compile(other))
    for one, other in (
        (r"\bon\b|\bturned_?on\b", r"\boff\b"), ("open", "clos|shut"), ("start", "stop|end"), (r"\block", "unlock"),
        (r"\bup\b", r"\bdown\b"), ("increas|rais|more|high|above", "decreas|lower|less|low|below"), ("enabl", "disabl"),
        ("开|启", "关|停|闭"), ("升|增|高|加", "降|减|低"), ("上", "下"), ("解锁", "锁定|上锁"), ("左|前", "右|后"),
        ("left", "right"), ("before", "after"), ("first", "last|then"), ("warm|hot", "cool|cold"), ("热", "冷"),
    )
)  # fmt: skip


def same_words(one: str, other: str, same: frozenset[str]) -> bool:
    """Whether two texts hold the same words and values in order, but for fillers, punctuation and a value's form.

    A phrase may stand at the end instead of the beginning (at 7:30 light-12 failed, light-12 failed at 7:30), where
    that changes nothing: nothing is negated or compared, there are no opposites, and one value of each kind at most.

    Args:
        one: A text.
        other: Another.
        same: What values may differ by, see ``entity.NORMALISATIONS``.
    """
    ours, theirs = list(_tokens(one, same)), list(_tokens(other, same))
    if not ours or len(ours) != len(theirs):
        return False
    if ours == theirs:
        return True
    values = [token for token in ours if _DIGIT.search(token)]
    kinds = [token.partition(":")[0] if token.startswith(("time:", "value:")) else "" for token in values]
    if (
        not values
        or len(set(kinds)) != len(kinds)
        or ours.count(PLACE) > 1
        or _order_counts(one)
        or _order_counts(other)
    ):
        return False
    return any(ours[i:] + ours[:i] == theirs for i in range(1, len(ours)))


def _order_counts(text: str) -> bool:
    folded = plain(text).casefold()
    return _NEGATION.search(folded) is not None or any(
        one.search(folded) and other.search(folded) for one, other in _OPPOSITES
    )


def _tokens(text: str, same: frozenset[str]) -> Iterator[str]:
    """Words in order, each time and quantity as what it means."""
    text = _SPACES.sub(lambda spaces: "\n" if "\n" in spaces[0] else " ", plain(text))
    text = _ARTICLE.sub(" ", _TAIL.sub("", _LEAD.sub(" ", text)))
    text = with_decimals(text) if "unit" in same else text
    text = with_signs(with_digits(text) if "numeral" in same else text)
    placed: list[tuple[int, int, str]] = []
    if "time" in same:
        placed += [
            (time.start, time.end, f"time:{time.seconds}")
            for time in readings(text.casefold())
            if time.seconds is not None and len(text.casefold()) == len(text)
        ]
    if "unit" in same:
        # Where the unit is none that is known, as in 5 mHz, it is a word.
        placed += [
            (start, end if found.unit else start + len(_DIGITS.match(text[start:end])[0]), _value(found))  # type: ignore[index]
            for found, start, end in placed_quantities(text)
        ]
    at = 0
    # A sum begins where its first part does.
    for start, end, token in sorted(placed, key=lambda one: (one[0], -one[1])):
        if start >= at:
            gap = text[at:start].strip()
            yield from _words(text[at:start], behind_value=at > 0)
            if (gap == "-" and at) or gap.endswith("~"):
                # 5-10 is no 5 10, ~5 no 5.
                yield gap[-1]
            yield token
            at = end
    yield from _words(text[at:], behind_value=at > 0)


def _value(found: Quantity) -> str:
    if found.unit is None:
        return f"value:{found.value.normalize():f}"
    unit = found.unit
    dimension = "temperature" if unit.dimension == "degree" else unit.dimension
    if (unit.factor, unit.offset) == (1, 0):
        return f"value:{found.value.normalize():f} {dimension}"
    return f"value:{float(found.value) * unit.factor + unit.offset:.12g} {dimension}"


def _words(text: str, *, behind_value: bool) -> Iterator[str]:
    # Whether the capital of a unit counts is told by the number in front.
    marked = with_case_marks(f"0{text}" if behind_value else text)[1 if behind_value else 0 :]
    yield from _WORD.findall(_ZEROS.sub(r"\1\2", marked.casefold()))
