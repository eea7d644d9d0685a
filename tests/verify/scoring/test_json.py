from __future__ import annotations

import json
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
    ],
)
def test_differences_are_named(expected: Any, found: Any, words: tuple[str, ...]) -> None:
    assert differences(expected, found) == words
