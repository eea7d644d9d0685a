"""Tokenizer: start tokens, special tokens, and what is written to disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from chipwise.errors import ModelFormatError
from chipwise.model.tokenizer import SpecialTokens, Tokenizer, load_fast_tokenizer

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_tokenizer(add_bos: bool = False, bos_id: int | None = 256) -> Tokenizer:
    """One token a byte, and two special ones."""
    fast = FastTokenizer(BPE(vocab={token: index for index, token in enumerate(ALPHABET)}, merges=[]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    fast.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("<end>", normalized=False)])
    return Tokenizer(fast, SpecialTokens(bos_id=bos_id, eos_ids=(257,), pad_id=None, add_bos=add_bos))


def test_special_tokens_in_text_are_recognised_and_skipped() -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode("<s>a<end>")
    assert (ids[0], ids[-1], len(ids)) == (256, 257, 3)
    assert tokenizer.decode(ids) == "a"
    assert tokenizer.decode(ids, skip_special=False) == "<s>a<end>"
    assert tokenizer.vocab_size == 258
    assert tokenizer.token_id("<end>") == 257
    assert tokenizer.token_id("nonsense") is None
    assert tokenizer.token_text(256) == "<s>"


def test_an_id_without_a_token_has_no_text() -> None:
    tokenizer = byte_tokenizer()
    assert tokenizer.token_text(258) == ""
    assert tokenizer.token_text(10**6) == ""
    assert tokenizer.decode([258], skip_special=False) == ""


@pytest.mark.parametrize(
    ("habit", "asked", "starts"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_start_token(habit: bool, asked: bool | None, starts: bool) -> None:
    tokenizer = byte_tokenizer(habit)
    assert (tokenizer.encode("a", add_bos=asked)[0] == 256) is starts
    assert tokenizer.encode("", add_bos=asked) == ([256] if starts else [])


def test_start_token_is_never_doubled_and_never_invented() -> None:
    assert byte_tokenizer(True).encode("<s>a") == byte_tokenizer(True).encode("a")
    assert len(byte_tokenizer(True, bos_id=None).encode("a")) == 1


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(codec="utf-8")))
def test_text_comes_back(text: str) -> None:
    tokenizer = byte_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text), skip_special=False) == text


def test_cut_characters_show_as_replacement() -> None:
    tokenizer = byte_tokenizer()
    assert tokenizer.decode(tokenizer.encode("你")[:2]) == "\ufffd"


def test_files_round_trip(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer(True)
    for name, content in tokenizer.to_files().items():
        (tmp_path / name).write_bytes(content)
    again = Tokenizer.from_files(tmp_path / "tokenizer.json", tmp_path / "special_tokens.json")
    assert again.special == tokenizer.special
    assert again.encode("<s>你好<end>") == tokenizer.encode("<s>你好<end>")


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"bos_id": 1}', '{"eos_ids": 3}', '{"eos_ids": [], "x": 1}']
)
def test_special_tokens_that_cannot_be(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(byte_tokenizer().to_files()["tokenizer.json"])
    if content is not None:
        (tmp_path / "special_tokens.json").write_text(content, "utf-8")
    with pytest.raises(ModelFormatError, match="unreadable special tokens"):
        Tokenizer.from_files(tmp_path / "tokenizer.json", tmp_path / "special_tokens.json")


def test_tokenizer_files_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ModelFormatError, match="cannot read the tokenizer"):
        load_fast_tokenizer(path)
    path.write_text(json.dumps({"model": {"type": "BPE"}}))
    with pytest.raises(ModelFormatError, match=r"not a tokenizer\.json"):
        load_fast_tokenizer(path)


@pytest.mark.parametrize(
    ("text", "exceeds"),
    [("x" * 200, True), ("x" * 81, True), ("x" * 80, False), ("x" * 3, False), ("", False)],
)
def test_a_text_that_is_far_too_long_is_known_by_its_beginning(text: str, exceeds: bool) -> None:
    assert byte_tokenizer().exceeds(text, 10) is exceeds


def test_a_long_text_of_few_tokens_is_looked_at_to_its_end() -> None:
    fast = FastTokenizer(WordLevel({"[UNK]": 0, "a" * 100: 1}, unk_token="[UNK]"))
    fast.pre_tokenizer = WhitespaceSplit()
    tokenizer = Tokenizer(fast, SpecialTokens(None, (), None, False))
    word = "a" * 100 + " "
    assert not tokenizer.exceeds(word * 10, 10)
    assert tokenizer.exceeds(word * 60, 10)


def test_no_more_of_a_text_is_tokenized_than_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, seen = byte_tokenizer(), []

    class Watched:
        def encode(self, text: str, *, add_special_tokens: bool) -> Any:
            seen.append(len(text))
            return fast.encode(text, add_special_tokens=add_special_tokens)

    fast = tokenizer._fast
    monkeypatch.setattr(tokenizer, "_fast", Watched())
    assert tokenizer.exceeds("x" * 1_000_000, 10)
    assert seen == [80]
