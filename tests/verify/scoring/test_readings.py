"""Keywords beside answers that say them in other words, or say something else that looks alike."""

from __future__ import annotations

import pytest

from chipwise.verify.scoring.entity import missing_entities

SAID = [
    # Sums of one kind are one value.
    ("5.2 kg", "5 kg 200 g"),
    ("90 min", "1 hour and 30 minutes"),
    ("1 h 30 min", "90 min"),
    ("1 h 30 min", "一小时三十分钟"),
    ("90 s", "1分30秒"),
    ("1 h", "1 h, 5 lights"),
    # Rates.
    ("100 km/h", "100公里/小时"),
    ("100 km/h", "时速100公里"),
    ("30 fps", "每秒30帧"),
    ("1500 rpm", "每分钟1500转"),
    ("5 min", "every 5 min"),
    ("30 min", "每天30分钟"),
    # Chinese digits before units.
    ("1.5 kg", "三斤"),
    ("1 kg", "两斤"),
    ("2 t", "两吨"),
    ("5 bar", "五巴"),
    ("5 MW", "五兆瓦"),
    ("5 Hz", "五赫兹"),
    ("10 kW", "十千瓦"),
    ("20 kg", "二十千克"),
    ("12 km", "十二千米"),
    ("3.5 kg", "三点五千克"),
    ("3 kW", "三千瓦"),
    ("5000", "5千"),
    ("100%", "百分之百"),
    ("10 min", "10-minute timer"),
    ("50 Hz", "50 hertz"),
    ("5 bar", "5 bars"),
    ("1920x1080", "1920×1080"),
    ("26", "空调26度，风速三档"),
    ("26 °C", "26 degrees (78.8 °F)"),
    # Times.
    ("8:00", "周一八点开会"),
    ("3:00", "周二三点"),
    ("10:00", "周二十点"),
    ("12:30", "周二十二点半"),
    ("7:30", "星期三七点半"),
    ("9:00", "初一九点"),
    ("20:00", "周一晚上八点"),
    ("7:00", "at 7 o'clock"),
    ("7:00", "7 in the morning"),
    ("19:00", "7 o'clock tonight"),
    ("19:00", "Alarm set for 7 tonight"),
    ("15:00", "3 in the afternoon"),
    ("19:30", "7:30 (pm)"),
    ("19:00", "6-7 pm"),
    ("19:00", "from 6 to 7 pm"),
    ("19:05", "下午7点零5分"),
    ("20:00", "2026-01-01T20:00:00+08:00"),
    ("20:00", "At 20:00 night mode turns on."),
    ("20:00", "It starts at 8:00 Friday night."),
    ("10:00", "早上8点到10点"),
]

NOT_SAID = [
    ("30 min", "1 hour 30 minutes"),
    ("30 min", "1小时30分钟"),
    ("30 s", "1分钟30秒"),
    ("2 days", "2 days 3 hours"),
    ("5 kg", "5 kg 200 g"),
    ("200 g", "5 kg 200 g"),
    ("1 h", "1 h 30"),
    ("1 m", "一米八"),
    ("100 km", "100公里/小时"),
    ("100 km", "每小时100公里"),
    ("100 km", "时速100公里"),
    ("100 km", "8.5L/100km"),
    ("5 L", "5升/分钟"),
    ("5 L", "每分钟5升"),
    ("5 L", "5 litres a minute"),
    ("5 m", "5米/秒"),
    ("5 m", "5 m^2"),
    ("5 m", "5 m²"),
    ("5 kW", "5 kW·h"),
    ("5 A", "5安时"),
    ("5 V", "5伏安"),
    ("26", "26度半"),
    ("26", "26 and a half degrees"),
    ("5", "5 1/2"),
    ("5", "5 and 1/2"),
    ("5", ".5"),
    ("5", "point five degrees"),
    ("5", "5th"),
    ("15", "15k rows"),
    ("10", "十分抱歉"),
    ("56", "五六度"),
    ("35", "三五天"),
    ("20", "二十多度"),
    ("3", "三分之二"),
    ("2", "3分之2"),
    ("11", "一一检查"),
    ("102", "10²"),
    ("10", "10²"),
    ("5", "5·10^3"),
    ("1", "一转眼"),
    ("1", "一时找不到"),
    ("16", "周二十六度"),
    ("26", "周二十六度"),
    ("18:00", "周一八点"),
    ("20:00", "周二十点"),
    ("13:00", "一三点"),
    ("20:00", "At 8:00 night light turns on."),
    ("8:00", "8:00 night mode"),
    ("22:00", "10:00 night shift ends"),
    ("8:00", "20:00+08:00"),
    ("8:00", "2026-01-01T20:00:00+08:00"),
    ("5:00", "2026-01-01T20:00:00-05:00"),
    ("1:00", "早上8点到1点"),
    ("19:00", "10 to 7 pm"),
    ("19:00", "晚上七点多"),
    ("26 °C", "Units are °F. Set to 26 degrees."),
]


@pytest.mark.parametrize(("keyword", "answer"), SAID)
def test_said_in_other_words(keyword: str, answer: str) -> None:
    assert missing_entities([keyword], answer) == ()


@pytest.mark.parametrize(("keyword", "answer"), NOT_SAID)
def test_another_value(keyword: str, answer: str) -> None:
    assert missing_entities([keyword], answer) == (keyword,)
