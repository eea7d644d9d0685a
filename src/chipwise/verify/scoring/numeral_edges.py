"""What must not stand beside a numeral in words, lest it be part of a longer one: 二楼 is not in 十二楼."""

from __future__ import annotations

import re

from chipwise.verify.scoring.english_numerals import NUMERALS

_ZH = "零〇一二两三四五六七八九十百千万亿"
_ZH_LEFT = (
    rf"(?<![{_ZH}点第负0-9.])(?<!零下)(?<!负 )(?<!零下 )(?<!分之)"
    "(?<!小时)(?<!分钟)(?<!小时[零又])(?<!分钟[零又])"
)  # fmt: skip
_ZH_RIGHT = rf"(?![{_ZH}多几余半]|点[{_ZH}]|分之)"
# Behind a measure the same measure may go on: 两小时三十分钟, 五分钟半, 一米八.
_ZH_MEASURE = re.compile("(?:小时|分钟|分|秒|天|米|度|公里|公斤|千克|克|斤|升|安|瓦|伏)$")
_ZH_MEASURE_RIGHT = rf"(?! ?(?:半(?!小时|天|夜)|又|零?[{_ZH}0-9]|每|/|电))"

_ANY_EN = "|".join(NUMERALS)
_EN_LEFT = "".join(
    rf"(?<!{word}{joint})"
    for word in (*NUMERALS, "minus", "negative", "point", "hundred and", "thousand and", "million and", "billion and")
    for joint in (" ", "-")
)
_EN_RIGHT = (
    rf"(?![ -](?:and )?(?:{_ANY_EN}|point|halves|thirds?|quarters?|hundreds|thousands|millions)(?![a-z])"
    "|-(?:first|second|third|[a-z]{1,12}th)(?![a-z])| and a (?:half|quarter))"
)
_EN_MEASURE_RIGHT = (
    r"(?! below (?:zero|freezing)| (?:per|an?) [a-z]| and a (?:half|quarter)"
    rf"|,? (?:and )?(?:{_ANY_EN}|[0-9]+) (?:minutes?|seconds?|hours?))"
)


def numeral_edges(text: str) -> tuple[str, str]:
    """Regular expressions of what must not stand before and behind a keyword, given in small letters.

    They are empty unless the keyword begins or ends with a numeral in words. ``five minutes`` is in none of
    ``twenty-five minutes``, ``minus five minutes`` and ``five minutes and ten seconds``, ``zone two`` not in ``zone two
    hundred``, 五度 neither in 十五度 nor in 零下五度.
    """
    if not text:
        return "", ""
    left = right = ""
    head, tail = re.match("[a-z]+", text), re.search("[a-z]+$", text)
    if text[0] in _ZH:
        left, right = _ZH_LEFT, _ZH_MEASURE_RIGHT if _ZH_MEASURE.search(text) else ""
    elif head and head[0] in NUMERALS:
        left, right = _EN_LEFT, _EN_MEASURE_RIGHT
    if text[-1] in _ZH:
        right += _ZH_RIGHT
    elif tail and tail[0] in NUMERALS:
        right += _EN_RIGHT
    return left, right
