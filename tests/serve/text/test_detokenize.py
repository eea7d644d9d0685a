from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chipwise.serve.text.detokenize import Detokenizer


@given(st.text(max_size=30), st.lists(st.integers(0, 120), max_size=20))
def test_characters_come_whole_however_bytes_are_cut(text: str, borders: list[int]) -> None:
    raw, detokenizer, said = text.encode(), Detokenizer(), ""
    cuts = [0, *sorted(min(b, len(raw)) for b in borders), len(raw)]
    for a, b in pairwise(cuts):
        said += detokenizer.push(raw[a:b])
        assert text.startswith(said)
        assert b - len(said.encode()) < 4, "a character that is complete waits"
    assert said == text


def test_character_waits_for_its_last_byte() -> None:
    detokenizer = Detokenizer()
    assert [detokenizer.push(bytes([b])) for b in "漢🦊".encode()] == ["", "", "漢", "", "", "", "🦊"]


def test_impossible_bytes_do_not_hold_what_follows() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push(b"\xff\x80") == "\ufffd\ufffd"
    assert detokenizer.push(b"\xe4\xb8") == ""
    assert detokenizer.push(b"a") == "\ufffda"
