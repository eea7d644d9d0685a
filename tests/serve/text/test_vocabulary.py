from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE

from chipwise.model.tokenizer import SpecialTokens, Tokenizer
from chipwise.serve.text.detokenize import Detokenizer
from chipwise.serve.text.vocabulary import Vocabulary
from tests.serve.fakes import BOS, EOS, byte_alphabet, byte_tokenizer

NO_SPECIAL = SpecialTokens(None, (), None, add_bos=False)
SENTENCEPIECE = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "h", "e", "l", "o", "漢", "▁h"]


def sentencepiece_tokenizer() -> Tokenizer:
    """As Llama 2's: spaces are written ▁, what the vocabulary lacks as bytes, one leading space is stripped."""
    merges = [("▁", "h")]
    model = BPE(
        vocab={token: i for i, token in enumerate(SENTENCEPIECE)},
        merges=merges,
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
    fast = FastTokenizer(model)
    fast.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    fast.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    fast.add_special_tokens([AddedToken(t, special=True) for t in ("<unk>", "<s>", "</s>")])
    return Tokenizer(fast, NO_SPECIAL)


def said(vocabulary: Vocabulary, ids: list[int]) -> str:
    detokenizer = Detokenizer()
    return "".join(detokenizer.push(vocabulary.token_bytes(i)) for i in ids)


@given(st.text(max_size=20))
def test_byte_level_text_comes_back(text: str) -> None:
    tokenizer = byte_tokenizer()
    assert said(Vocabulary(tokenizer), tokenizer.encode(text)) == text


def test_byte_level_tokens_are_their_bytes() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    assert b"".join(vocabulary.token_bytes(i) for i in range(256)) == bytes(range(256))


@pytest.mark.parametrize("token_id", [BOS, EOS, 258, 10**6])
def test_special_tokens_and_holes_add_nothing(token_id: int) -> None:
    assert Vocabulary(byte_tokenizer()).token_bytes(token_id) == b""


def test_added_token_outside_the_alphabet_is_written_as_it_reads() -> None:
    fast = FastTokenizer(BPE(vocab={c: b for b, c in enumerate(byte_alphabet())}, merges=[]))
    fast.decoder = decoders.ByteLevel()
    fast.add_tokens(["<think>", "<想 一>"])
    vocabulary = Vocabulary(Tokenizer(fast, NO_SPECIAL))
    assert vocabulary.token_bytes(256) == b"<think>"
    assert vocabulary.token_bytes(257) == "<想 一>".encode()


@given(st.text("helo 漢字🦊", max_size=20))
def test_sentencepiece_text_comes_back_behind_other_text(text: str) -> None:
    tokenizer = sentencepiece_tokenizer()
    front = tokenizer.encode("hello")
    whole = tokenizer.encode("hello" + text)
    assert whole[: len(front)] == front
    assert said(Vocabulary(tokenizer), whole[len(front) :]) == tokenizer.decode(whole).removeprefix("hello") == text


def test_sentencepiece_tokens() -> None:
    vocabulary = Vocabulary(sentencepiece_tokenizer())
    found = [vocabulary.token_bytes(SENTENCEPIECE.index(t)) for t in ("▁", "▁h", "漢", "<0xE4>", "<0x41>", "</s>")]
    assert found == [b" ", b" h", "漢".encode(), b"\xe4", b"A", b""]


def test_tokens_for_people() -> None:
    vocabulary = Vocabulary(byte_tokenizer())
    assert [vocabulary.token_text(i) for i in (65, 32, 0xE4, EOS)] == ["A", " ", "bytes:\\xe4", "<end>"]


def test_holes_of_a_padded_vocabulary_have_no_text() -> None:
    for tokenizer in (byte_tokenizer(), sentencepiece_tokenizer()):
        hole = tokenizer.vocab_size
        assert Vocabulary(tokenizer).token_text(hole) == ""
        assert Vocabulary(tokenizer).token_bytes(hole) == b""
