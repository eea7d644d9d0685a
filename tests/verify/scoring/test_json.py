from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.scoring.json_meaning import differences
from chipwise.verify.scoring.json_text import json_values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a":1}', [{"a": 1}]),
        ('Sure: ```json\n{"a": 1}\n``` done', [{"a": 1}]),
        ('<tool_call>\n{"a":1}\n</tool_call><tool_call>{"b":2}</tool_call>', [{"a": 1}, {"b": 2}]),
        ('{"a":1', []),
        ('{"a": {"b": 2}', [{"b": 2}]),
        ("no json", []),
        ("[1,2]", [[1, 2]]),
        ("{x} [y] {}", [{}]),
        ("[" * 100_000, []),
    ],
)
def test_values_of_a_text(text: str, found: list[Any]) -> None:
    assert list(json_values(text[:3000])) == found


@given(st.dictionaries(st.text(), VALUES), st.text(st.characters(exclude_characters="[{")))
def test_a_value_is_found_after_any_words(value: dict[str, Any], words: str) -> None:
    assert json_values(words + json.dumps(value))[0] == value


@given(VALUES)
def test_a_value_means_itself_in_any_order(value: Any) -> None:
    assert differences(value, json.loads(json.dumps(value))) == ()
    if isinstance(value, dict):
        assert differences(value, dict(reversed(value.items()))) == ()


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        ({"p": 50}, {"p": "50.0"}, ()),
        ({"p": 50}, {"p": 59}, ("p is 59, not 50",)),
        ({"p": 50}, {}, ("p is missing, should be 50",)),
        ({}, {"p": 50}, ("p is 50, should not be there",)),
        ({"a": None}, {}, ()),
        ({"on": True}, {"on": "true"}, ()),
        ({"on": True}, {"on": 1}, ("on is 1, not true",)),
        ({"t": "19:30"}, {"t": "7:30 pm"}, ()),
        ({"id": "0042"}, {"id": "42"}, ('id is "42", not "0042"',)),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("a.b[1] is 3, not 2",)),
        ({"a": [1]}, {"a": [1, 2]}, ("a has 2 items, not 1",)),
        ({"a": [1]}, {"a": 1}, ("a is 1, not [1]",)),
        ({"v": 1e400}, {"v": "x"}, ('v is "x", not Infinity',)),
        ({"n": 1700000000}, {"n": 1700000001}, ("n is 1700000001, not 1700000000",)),
        ({"n": 10**18}, {"n": float(10**18)}, ()),
        ({"n": 10**18 + 1}, {"n": float(10**18)}, (f"n is {float(10**18)!r}, not {10**18 + 1}",)),
        ({"phone": "13800138000"}, {"phone": "13800138001"}, ('phone is "13800138001", not "13800138000"',)),
        ({"phone": "13800138000"}, {"phone": 13800138000}, ()),
        ({"v": "1.10"}, {"v": "1.1"}, ('v is "1.1", not "1.10"',)),
        ({"v": "1.10"}, {"v": 1.1}, ('v is 1.1, not "1.10"',)),
        ({"v": 1.1}, {"v": "1.10"}, ()),
        ({"v": "1e5"}, {"v": "100000"}, ('v is "100000", not "1e5"',)),
        ({"v": 100000}, {"v": "1e5"}, ()),
        ({"v": 0.3}, {"v": 0.1 + 0.2}, ()),
        ({"v": 0.3}, {"v": 0.3000001}, ("v is 0.3000001, not 0.3",)),
        ({"v": 5.0}, {"v": 1e400}, ("v is Infinity, not 5.0",)),
        ({"p": "5 MW"}, {"p": "5 mW"}, ('p is "5 mW", not "5 MW"',)),
        ({"t": "零下5度"}, {"t": "5度"}, ('t is "5度", not "零下5度"',)),
        ({"t": "零下5度"}, {"t": "-5 °C"}, ()),
        ({"n": 1}, {"n": True}, ("n is true, not 1",)),
        ({"s": "x " * 1000}, {"s": "X  " * 1000}, ()),
    ],
)
def test_differences_are_named(expected: Any, found: Any, words: tuple[str, ...]) -> None:
    assert differences(expected, found) == words


@given(st.integers(-(10**30), 10**30), st.integers(1, 1000))
def test_whole_numbers_and_digits_are_compared_to_the_last(number: int, beside: int) -> None:
    other = number + beside
    assert differences(number, str(number)) == differences(str(number), number) == ()
    for one, two in ((number, other), (str(number), str(other)), (number, str(other)), (str(number), other)):
        assert differences(one, two) != ()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_survives_printing(number: float) -> None:
    assert differences(number, json.loads(json.dumps(number))) == ()


def test_a_field_that_comes_twice_means_nothing_that_is_expected() -> None:
    for text in ('{"p":50,"p":59}', '{"p":59,"p":50}'):
        (value,) = json_values(text)
        assert differences({"p": 50}, value) != ()
        assert differences({"p": [50, 59]}, value) != ()
    assert json_values('{"p":50,"p":50}') == ({"p": 50},)


@pytest.mark.parametrize("text", ["5 min", "5 h", "10 km/h", "72 °F", "30%", "-5 °C", "5 kg"])
def test_a_unit_is_neither_dropped_nor_added(text: str) -> None:
    bare = re.match("-?[0-9]+", text)
    assert bare is not None
    assert differences({"x": text}, {"x": bare[0]}) != ()
    assert differences({"x": bare[0]}, {"x": text}) != ()
    assert differences({"x": text}, {"x": f"{text} "}) == ()
