"""Noise: what speech recognition, thumbs and bad lines do to a sentence, without touching what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from chipwise.verify.domains.draw import Draw

Spoil = Callable[[Draw, str], str]

# Words without digits, signs and capitals inside: identifiers, codes, times and units stay as they are.
_WORD = re.compile(r"(?<![\w-])[A-Za-z]?[a-z]{3,}(?![\w-])")
_HAN = re.compile(r"(?<![\d一二三四五六七八九十百千万])[\u4e00-\u9fff](?=[\u4e00-\u9fff])")
_FILLERS = {"en": ("uh, ", "um, ", "hey, ", "so, ", "well, "), "zh": ("嗯，", "那个，", "呃，", "喂，", "就是，")}


def language(text: str) -> str:
    """``zh`` if there is a Chinese character in the text, else ``en``."""
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"


def filler(draw: Draw, text: str) -> str:
    """A word of hesitation at the beginning."""
    said = draw.choice(_FILLERS[language(text)])
    return said + (text[0].lower() + text[1:] if text[:2].istitle() and text[1:2].islower() else text)


def no_punctuation(draw: Draw, text: str) -> str:
    """Without the mark at its end, as speech comes."""
    return text.rstrip(".!?。！？")


def swapped(draw: Draw, text: str) -> str:
    """Two letters of a word swapped."""
    words = [match for match in _WORD.finditer(text) if len(match.group()) >= 4]
    if not words:
        return text
    word = draw.choice(words)
    i = word.start() + draw.integer(1, len(word.group()) - 3)
    return text[:i] + text[i + 1] + text[i] + text[i + 2 :]


def dropped(draw: Draw, text: str) -> str:
    """A letter of a longer word missing."""
    words = [match for match in _WORD.finditer(text) if len(match.group()) >= 5]
    if not words:
        return text
    word = draw.choice(words)
    i = word.start() + draw.integer(1, len(word.group()) - 2)
    return text[:i] + text[i + 1 :]


def repeated(draw: Draw, text: str) -> str:
    """A word, or a Chinese character, said twice."""
    places = list((_HAN if language(text) == "zh" else _WORD).finditer(text))
    if not places:
        return text
    place = draw.choice(places)
    between = "" if language(text) == "zh" else " "
    return text[: place.end()] + between + place.group().lower() + text[place.end() :]


def spaced(draw: Draw, text: str) -> str:
    """Spaces where none belong: two for one, or between Chinese characters."""
    places = list((_HAN if language(text) == "zh" else re.compile(" ")).finditer(text))
    if not places:
        return text
    place = draw.choice(places)
    return text[: place.end()] + " " + text[place.end() :]


def wide(draw: Draw, text: str) -> str:
    """Digits in their full-width forms, as Chinese keyboards write them."""
    return text.translate({ord("0") + i: 0xFF10 + i for i in range(10)})


def shouted(draw: Draw, text: str) -> str:
    """Words in capitals; identifiers as they are."""
    return _WORD.sub(lambda match: match.group().upper(), text)


KINDS: dict[str, Mapping[str, Spoil]] = {
    "en": {
        "filler": filler,
        "no_punctuation": no_punctuation,
        "swapped": swapped,
        "dropped": dropped,
        "repeated": repeated,
        "spaced": spaced,
        "shouted": shouted,
    },
    "zh": {
        "filler": filler,
        "no_punctuation": no_punctuation,
        "repeated": repeated,
        "spaced": spaced,
        "wide": wide,
    },
}
"""The kinds of noise by language and name."""


def spoil(draw: Draw, text: str) -> tuple[str, str]:
    """A text with one kind of noise in its first line, and the kind's name.

    A text that no kind changes comes back with a word of hesitation.
    """
    first, newline, rest = text.partition("\n")
    kinds = KINDS[language(text)]
    for name in draw.sample(sorted(kinds), len(kinds)):
        noisy = kinds[name](draw, first)
        if noisy != first:
            return name, noisy + newline + rest
    return "filler", filler(draw, first) + newline + rest
