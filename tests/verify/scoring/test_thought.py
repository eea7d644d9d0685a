from __future__ import annotations

import time

import pytest

from chipwise.verify.scoring.requirement import Requirement
from chipwise.verify.scoring.thought import said

PAIRS = [
    ("<think>", "</think>"),
    ("<think >", "</think >"),
    ("<THINK>", "</THINK>"),
    ('<think time="3">', "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
]


@pytest.mark.parametrize(("begin", "end"), PAIRS)
def test_what_was_thought_is_no_answer(begin: str, end: str) -> None:
    asked = Requirement(("26",))
    assert asked.misses(f"{begin}26{end} 27") == ("26",)
    assert asked.misses(f"{begin}27{end} 26") == ()
    assert asked.misses(f"27{end} 26") == ()
    assert asked.misses(f"{begin}26") == ("26",)
    assert asked.misses(f"26 {begin}or 27") == ()
    assert asked.misses(f"{begin}1{end}26 {begin}2{end}27") == ("26",)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("<|channel|>analysis<|message|>26<|end|><|start|>assistant<|channel|>final<|message|>27<|return|>", "27"),
        ("<|channel|>analysis<|message|>26", ""),
        ("<|channel|>final<|message|>It is 27", "It is 27"),
        ("I think, <b>26</b> <thinker> [think]ing", "I think, <b>26</b> <thinker> "),
        ("I think so", "I think so"),
    ],
)
def test_what_is_said(answer: str, words: str) -> None:
    assert said(answer).split() == words.split()


@pytest.mark.parametrize("part", ["<think", "<think ", "</think>", "<think>", "[THINK]", "<|channel|>", "<|start|>"])
def test_many_tags_take_no_time(part: str) -> None:
    began = time.process_time()
    said(part * (200_000 // len(part)))
    assert time.process_time() - began < 2
