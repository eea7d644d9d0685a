from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.text.stop import StopMatcher

# Few letters, so that stop strings overlap with themselves and each other.
TEXT = st.text("abc", max_size=40)
STOPS = st.lists(st.text("abc", min_size=1, max_size=5), max_size=4)


def reference(text: str, stops: list[str]) -> tuple[str, bool]:
    """The definition on the whole text: the first end of a stop string, and of those there the earliest start."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


def pieces_of(text: str, borders: list[int]) -> list[str]:
    cuts = [0, *sorted(min(b, len(text)) for b in borders), len(text)]
    return [text[a:b] for a, b in pairwise(cuts)]


@given(TEXT, STOPS, st.lists(st.integers(0, 40), max_size=8))
def test_as_the_definition_says_however_the_text_is_cut(text: str, stops: list[str], borders: list[int]) -> None:
    matcher, sent = StopMatcher(stops), ""
    expected, stopped = reference(text, stops)
    for piece in pieces_of(text, borders):
        sent += matcher.push(piece)
        assert expected.startswith(sent), "text was sent that belongs to a stop string"
    sent += matcher.flush()
    assert (sent, matcher.stopped) == (expected, stopped)


@given(TEXT, STOPS)
def test_nothing_is_held_without_need(text: str, stops: list[str]) -> None:
    matcher, sent = StopMatcher(stops), ""
    for i, char in enumerate(text, start=1):
        sent += matcher.push(char)
        if matcher.stopped:
            return
        could_begin = [n for stop in stops for n in range(len(stop)) if n and text[:i].endswith(stop[:n])]
        assert i - len(sent) == max(could_begin, default=0)


def test_after_the_stop_nothing_comes() -> None:
    matcher = StopMatcher(["ab"])
    assert matcher.push("xab tail") == "x"
    assert matcher.push("more") == ""
    assert matcher.flush() == ""


def test_flush_begins_anew() -> None:
    matcher = StopMatcher(["ab"])
    assert matcher.push("a") == ""
    assert matcher.flush() == "a"
    assert matcher.push("b") == "b"
    assert not matcher.stopped


def test_cost_is_linear_in_the_text() -> None:
    # A text that follows a long stop string almost to its end, again and again.
    stop = "a" * 2000 + "b"
    start = time.perf_counter()
    matcher = StopMatcher([stop])
    sent = sum(len(matcher.push("a")) for _ in range(20_000))
    assert sent == 18_000
    assert time.perf_counter() - start < 2
