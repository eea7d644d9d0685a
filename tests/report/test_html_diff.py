from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.report.html_diff import MAX_PIECES, mark_differences


@pytest.mark.parametrize(
    ("reference", "candidate", "left", "right"),
    [
        ("turn on 26", "turn on 26", "turn on 26", "turn on 26"),
        ("turn on 26", "turn on 20", "turn on <del>26</del>", "turn on <ins>20</ins>"),
        ("打开台灯", "打开风扇", "打开<del>台灯</del>", "打开<ins>风扇</ins>"),
        ("the red lamp is on", "a blue lamp is on", "<del>the red</del> lamp is on", "<ins>a blue</ins> lamp is on"),
        ("a", "", "<del>a</del>", ""),
        ("", "a b", "", "<ins>a b</ins>"),
        ("<b>", "<i>", "&lt;<del>b</del>&gt;", "&lt;<ins>i</ins>&gt;"),
    ],
)
def test_marks_words_numbers_and_characters(reference: str, candidate: str, left: str, right: str) -> None:
    assert mark_differences(reference, candidate) == (left, right)


@given(st.text(alphabet="ab1 台灯<&\n"), st.text(alphabet="ab1 台灯<&\n"))
def test_without_its_marks_each_side_is_its_text(reference: str, candidate: str) -> None:
    for marked, text in zip(mark_differences(reference, candidate), (reference, candidate), strict=True):
        assert re.sub("</?(del|ins)>", "", marked) == text.replace("&", "&amp;").replace("<", "&lt;")


def test_a_very_long_answer_is_whole_and_its_end_unmarked() -> None:
    left, right = mark_differences("a " * MAX_PIECES, "b " * MAX_PIECES)
    assert re.sub("</?del>", "", left) == "a " * MAX_PIECES
    assert re.sub("</?ins>", "", right) == "b " * MAX_PIECES
    assert right.endswith("b b ")


def test_an_answer_that_repeats_itself_for_ever_is_quick() -> None:
    start = time.perf_counter()
    mark_differences("open the door " * 500, "open the the door " * 500)
    assert time.perf_counter() - start < 1


def test_a_long_answer_with_one_change_has_one_mark() -> None:
    words = [f"w{i} the" for i in range(300)]
    left, right = mark_differences(" ".join(words), " ".join([*words[:150], "x", *words[151:]]))
    assert left.count("<del>") <= 3
    assert right.count("<ins>") == 1
