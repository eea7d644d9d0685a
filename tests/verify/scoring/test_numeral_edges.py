from __future__ import annotations

import pytest

from chipwise.verify.scoring.entity import LITERAL, USUAL, missing_entities

LONGER = [
    ("二楼", "十二楼"),
    ("二楼", "负二楼"),
    ("五分钟", "二十五分钟"),
    ("五分钟", "一小时零五分钟"),
    ("五分钟", "五分钟三十秒"),
    ("五度", "十五度"),
    ("五度", "零下五度"),
    ("三号泵", "十三号泵"),
    ("百分之五", "百分之五十"),
    ("五百", "三千五百"),
    ("三点五", "三点五五"),
    ("三点五", "十三点五"),
    ("一百", "一百二十"),
    ("五元", "十五元"),
    ("five minutes", "twenty-five minutes"),
    ("five minutes", "twenty five minutes"),
    ("five minutes", "two hundred and five minutes"),
    ("two", "thirty-two"),
    ("twenty", "twenty-two"),
    ("twenty", "twenty-second"),
    ("zone two", "zone two hundred"),
    ("five degrees", "minus five degrees"),
    ("five degrees", "five degrees below zero"),
]


@pytest.mark.parametrize(("keyword", "answer"), LONGER)
@pytest.mark.parametrize("same", [LITERAL, USUAL], ids=["literal", "usual"])
def test_a_numeral_is_not_in_a_longer_one(keyword: str, answer: str, same: frozenset[str]) -> None:
    assert missing_entities([keyword], answer, same) == (keyword,)


@pytest.mark.parametrize(
    ("keyword", "answer"),
    [
        ("二楼", "去二楼"),
        ("二楼", "周三去二楼"),
        ("五分钟", "五分钟后提醒"),
        ("三号泵", "三号泵五号泵都停了"),
        ("百分之五", "降到百分之五"),
        ("一下", "等一下"),
        ("万一", "万一停电"),
        ("five minutes", "In five minutes, two lights go off"),
        ("zone two", "Zone two is armed"),
        ("one light", "only one light is on"),
    ],
)
@pytest.mark.parametrize("same", [LITERAL, USUAL], ids=["literal", "usual"])
def test_a_numeral_of_its_own_is_found(keyword: str, answer: str, same: frozenset[str]) -> None:
    assert missing_entities([keyword], answer, same) == ()
