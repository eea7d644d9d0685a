from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.verify.domains import DOMAINS, generate
from chipwise.verify.domains.draw import Draw
from chipwise.verify.domains.noise import KINDS, language, spoil

SENTENCES = [c.messages[-1]["content"] for d in DOMAINS for c in generate(d, 30, 8, "heldout")]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_kind_changes_some_sentence_and_leaves_what_has_digits(lang: str) -> None:
    texts = [text for text in SENTENCES if language(text) == lang]
    for name, kind in KINDS[lang].items():
        draw, changed = Draw(name), 0
        for text in texts:
            noisy = kind(draw, text)
            changed += noisy != text
            plain = noisy.translate({0xFF10 + i: ord("0") + i for i in range(10)})
            assert re.findall(r"[\w.:-]*\d[\w.:-]*", plain, re.ASCII) == re.findall(
                r"[\w.:-]*\d[\w.:-]*", text.rstrip(".!?") if name == "no_punctuation" else text, re.ASCII
            ), (name, text, noisy)
        assert changed > len(texts) // 4, name


@given(st.sampled_from(SENTENCES), st.integers(0, 10**6))
def test_noise_always_changes_the_first_line_alone_and_is_drawn_anew_alike(text: str, seed: int) -> None:
    name, noisy = spoil(Draw(str(seed)), text)
    assert noisy != text
    assert noisy.split("\n")[1:] == text.split("\n")[1:]
    assert name in KINDS[language(text)]
    assert spoil(Draw(str(seed)), text) == (name, noisy)


@given(st.text(min_size=1), st.integers(0, 99))
def test_any_text_can_be_spoiled(text: str, seed: int) -> None:
    assert spoil(Draw(str(seed)), text)[1] != text
