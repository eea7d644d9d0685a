from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.speculation.draft import NO_DRAFT
from chipwise.serve.speculation.lookup import look_up


def found(text: str, most: int = 5) -> tuple[str, str]:
    """What is guessed behind a text, and from where."""
    draft = look_up(np.array([ord(char) for char in text]), most)
    return "".join(map(chr, draft.tokens)), draft.hints[0] if draft else ""


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("the lamp, the", (" lamp", "short")),
        # The longest run counts, not the latest; of equally long ones the latest.
        ("kitchen lamp hen house kitchen", (" lamp", "middle")),
        ("ab1 ab2 ab", ("2 ab2", "short")),
        ('{"room": "hall"} {"room": "', ('hall"', "long")),
        # A text that repeats itself goes on so.
        ("xyxyxy", ("xyxyx", "middle")),
        ("aaaa", ("aaaaa", "short")),
    ],
)
def test_what_came_before_is_guessed(text: str, guess: tuple[str, str]) -> None:
    assert found(text) == guess


@pytest.mark.parametrize("text", ["", "a", "ab", "abca", "abcdef"])
def test_nothing_is_guessed_from_less_than_two_equal_tokens(text: str) -> None:
    assert found(text) == ("", "")


def test_no_more_than_asked_for() -> None:
    assert found("the lamp, the", 2) == (" l", "short")
    assert look_up(np.arange(9) % 3, 0) is NO_DRAFT


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 8))
def test_as_by_looking_at_every_place(tokens: list[int], most: int) -> None:
    n = len(tokens)

    def equal(end: int) -> int:
        count = 0
        while count < 12 and count <= end and tokens[end - count] == tokens[n - 1 - count]:
            count += 1
        return count

    best = max(((equal(end), end) for end in range(n - 1)), default=(0, 0))
    draft = look_up(np.array(tokens, np.int64), most)
    if best[0] < 2:
        assert draft is NO_DRAFT
        return
    said = list(tokens)
    for i in range(most):
        said.append(said[best[1] + 1 + i])
    assert list(draft.tokens) == said[n:]
