from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.errors import InputError
from chipwise.verify.scoring.condition import holds

VALUES = {"t": 31, "mode": "away", "on": True, "温度": 26.5, "at": "9:00", "day": "2026-01-31", "none": None}


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        ("t > 26", True),
        ("t > 31", False),
        ("t >= 31 and on", True),
        ("not on or t < 5", False),
        ("26 < t <= 31", True),
        ("mode == 'away'", True),
        ("mode in ['home', 'away']", True),
        ("温度 < 27", True),
        ("t - 温度 > 4", True),
        ("on == true", True),
        ("-t < 0", True),
        ('mode != "away"', False),
        ("t / 2 == 15.5", True),
        ("(t > 40) or (mode not in ['home'])", True),
        ("t == 31.0", True),
        ("'aw' in mode", True),
        ("at < '19:30'", True),
        ("at <= '下午1点'", True),
        ("day >= '2026-01-05'", True),
        ("day < '2026-01-05'", False),
    ],
)
def test_conditions(condition: str, result: bool) -> None:
    assert holds(condition, VALUES) is result


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("", "no condition"),
        ("t >", "no condition"),
        ("t = 3", "no condition"),
        ("open('x')", "no condition"),
        ("t.real > 3", "no condition"),
        ("t if on else 3", "no condition"),
        ("[x for x in [1]]", "no condition"),
        ("t", "neither true nor false"),
        ("heat > 3", "names 'heat'"),
        ("mode > 3", "cannot be evaluated"),
        ("t / 0 > 1", "cannot be evaluated"),
        ("t and on", "cannot be evaluated"),
        ("mode * 99999999 == 'x'", "cannot be evaluated"),
        ("not t", "cannot be evaluated"),
        ("t > 1 and " * 100 + "on", "characters"),
        ("(" * 400, "no condition"),
        ("t > \0", "no condition"),
        ("2 ** 99 > t", "no condition"),
        ("t == '31'", "'31' is a text"),
        ("t != '26'", "cannot be evaluated"),
        ("on == 1", "cannot be evaluated"),
        ("none == 3", "cannot be evaluated"),
        ("none > 3", "cannot be evaluated"),
        ("t in ['31']", "cannot be evaluated"),
        ("mode < 'home'", "nothing says which"),
        ("at < 'noonish'", "nothing says which"),
        ("day < '9:00'", "nothing says which"),
        ("[1] < [2]", "nothing says which"),
        ("on > 0", "nothing says which"),
    ],
)
def test_what_is_no_condition_is_said(condition: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        holds(condition, VALUES)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        assert holds(text, VALUES) in (True, False)
