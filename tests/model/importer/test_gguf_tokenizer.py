"""Tokenizers from GGUF metadata: the same ids as the tokenizer the metadata was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

from chipwise.errors import ModelFormatError
from chipwise.model.importer.gguf_file import load_gguf
from chipwise.model.importer.gguf_header import GgufHeader
from chipwise.model.importer.gguf_tokenizer import gguf_chat_template, gguf_tokenizer
from chipwise.model.tokenizer import Tokenizer as OurTokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

CORPUS = [
    "Turn on the light in the living room, please. It's 23 degrees; they'll be back at 18:30.",
    "打开客厅的灯。现在温度是二十三度，请把空调调到26度。",
    "def brew(cups=2):\n    return cups * 250  # millilitres\n",
    "Größe, café, naïve — 12345 numbers and   runs of spaces\t\ttabs",
] * 3

# The splitting of each family, as its own tokenizer.json has it.
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])


SPLITS: dict[str, pre_tokenizers.PreTokenizer] = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "qwen2": _split(QWEN2_PATTERN),
    "llama-bpe": _split(LLAMA3_PATTERN),
}
WILD = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="ab 'sST\n\r\t.12３é温度<|im_end|>▁  ", max_size=60),
    st.lists(st.sampled_from(["<|im_end|>", "<tool>", " the", "灯", "\n\n", "12", "'ll"]), max_size=8).map("".join),
)


def header(metadata: dict[str, Any], arch: str = "llama") -> GgufHeader:
    prefixed = {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
    return GgufHeader(Path("model.gguf"), {"general.architecture": arch, **prefixed}, {})


def build(metadata: dict[str, Any], arch: str = "llama") -> OurTokenizer:
    tokenizer = gguf_tokenizer(header(metadata, arch))
    assert tokenizer is not None
    return tokenizer


def byte_level(pre: str) -> tuple[Tokenizer, dict[str, Any]]:
    """A trained byte-level tokenizer, and what llama.cpp's converter writes of it."""
    original = Tokenizer(BPE(ignore_merges=pre == "llama-bpe"))
    original.pre_tokenizer = SPLITS[pre]
    original.decoder = decoders.ByteLevel()
    if pre == "qwen2":
        original.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    original.train_from_iterator(CORPUS, trainer)
    original.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    original.add_tokens(["<tool>"])
    return original, byte_level_metadata(original, pre)


def byte_level_metadata(original: Tokenizer, pre: str) -> dict[str, Any]:
    vocab = original.get_vocab(with_added_tokens=True)
    tokens = sorted(vocab, key=vocab.__getitem__)
    kinds = {"<|im_start|>": CONTROL, "<|im_end|>": CONTROL, "<tool>": USER_DEFINED}
    model = json.loads(original.to_str())["model"]
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": [kinds.get(token, NORMAL) for token in tokens],
        "merges": [" ".join(pair) for pair in model["merges"]],
        "bos_token_id": vocab["<|im_start|>"],
        "eos_token_id": vocab["<|im_end|>"],
    }


@pytest.mark.parametrize("pre", SPLITS)
def test_byte_level_ids_are_the_originals(pre: str) -> None:
    original, metadata = byte_level(pre)
    ours = build(metadata)

    @settings(max_examples=60, deadline=None)
    @given(text=WILD)
    def check(text: str) -> None:
        wanted = original.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_bos=False) == wanted
        assert ours.decode(wanted, skip_special=False) == original.decode(wanted, skip_special_tokens=False)

    for text in CORPUS:
        assert ours.encode(text, add_bos=False) == original.encode(text, add_special_tokens=False).ids
    check()


def test_no_rule_named_means_gpt2s() -> None:
    original, metadata = byte_level("gpt-2")
    del metadata["pre"]
    assert build(metadata).encode(CORPUS[0]) == original.encode(CORPUS[0]).ids
    assert build(metadata | {"pre": "default"}).encode(CORPUS[0]) == original.encode(CORPUS[0]).ids


def sentencepiece(prefix: bool = True) -> tuple[Tokenizer, dict[str, Any]]:
    """A trained BPE with byte fallback as SentencePiece's llama has it: pieces with scores, no merges."""
    original = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    original.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    special = ["<unk>", "<s>", "</s>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=560, special_tokens=pieces, show_progress=False)
    original.train_from_iterator(CORPUS, trainer)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    original.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    trained = json.loads(original.to_str())["model"]
    fresh = Tokenizer(
        BPE(
            vocab=trained["vocab"],
            merges=[tuple(pair) for pair in trained["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    fresh.normalizer, fresh.decoder = original.normalizer, original.decoder
    fresh.add_special_tokens(special)
    vocab = trained["vocab"]
    tokens = sorted(vocab, key=vocab.__getitem__)
    kinds = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
    first_merge = {"".join(pair): rank for rank, pair in reversed(list(enumerate(trained["merges"])))}
    scores = [-float(first_merge.get(token, 10_000)) if len(token) > 1 else -20_000.0 for token in tokens]
    return fresh, {
        "model": "llama",
        "tokens": tokens,
        "scores": scores,
        "token_type": [BYTE if t.startswith("<0x") else kinds.get(t, NORMAL) for t in tokens],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_space_prefix": prefix,
    }


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_ids_are_the_originals(prefix: bool) -> None:
    original, metadata = sentencepiece(prefix)
    ours = build(metadata)

    @settings(max_examples=60, deadline=None)
    @given(text=WILD)
    def check(text: str) -> None:
        wanted = original.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_bos=False) == wanted
        assert ours.decode(wanted) == original.decode(wanted)

    for text in CORPUS:
        ids = ours.encode(text, add_bos=False)
        assert ids == original.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == text
    check()


def test_characters_outside_the_vocabulary_become_bytes() -> None:
    _, metadata = sentencepiece()
    ours = build(metadata)
    ids = ours.encode("😀", add_bos=False)
    assert [ours.token_text(i) for i in ids[-4:]] == ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
    assert ours.decode(ids) == "😀"


@pytest.mark.parametrize(
    ("change", "add_bos"),
    [({}, True), ({"add_bos_token": False}, False), ({"add_bos_token": True}, True)],
)
def test_start_token_as_the_file_says_and_on_if_it_is_silent(change: dict[str, Any], add_bos: bool) -> None:
    _, metadata = sentencepiece()
    ours = build(metadata | change)
    assert ours.special.add_bos is add_bos
    assert (ours.encode("the")[0] == 1) is add_bos


@pytest.mark.parametrize(("pre", "add_bos"), [("smollm", False), ("qwen2", False), ("llama-bpe", True)])
def test_byte_level_vocabularies_start_text_as_their_family_does(pre: str, add_bos: bool) -> None:
    _, metadata = byte_level(pre)
    assert build(metadata).special.add_bos is add_bos
    assert build(metadata | {"add_bos_token": not add_bos}).special.add_bos is not add_bos


def test_every_end_token_is_found() -> None:
    tokens = ["a", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "</s>"]
    base = {"model": "gpt2", "tokens": tokens, "token_type": [NORMAL, CONTROL, CONTROL, CONTROL, CONTROL], "merges": []}
    special = build(base | {"eos_token_id": 4, "eot_token_id": 3, "padding_token_id": 1}).special
    assert special.eos_ids == (4, 3, 2, 1)
    assert (special.bos_id, special.pad_id) == (None, 1)


def test_turn_tokens_of_phi3_swallow_blanks() -> None:
    _, metadata = sentencepiece()
    metadata["tokens"] = [*metadata["tokens"], "<|user|>", "<|endoftext|>"]
    metadata["scores"] = [*metadata["scores"], -1000.0, -1000.0]
    metadata["token_type"] = [*metadata["token_type"], CONTROL, CONTROL]
    phi3, llama = build(metadata, "phi3"), build(metadata)
    assert phi3.encode("<|user|>\n \nthe") == phi3.encode("<|user|>the")
    assert llama.encode("<|user|>\n \nthe") != llama.encode("<|user|>the")
    assert phi3.encode("<|endoftext|>\nthe") != phi3.encode("<|endoftext|>the")


def test_runs_of_spaces_of_gemma() -> None:
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "▁", "a", "b", "  ", "ab", "▁a", "<table>"]
    kinds = [CONTROL, CONTROL, CONTROL, UNKNOWN, NORMAL, NORMAL, NORMAL, USER_DEFINED, NORMAL, NORMAL, USER_DEFINED]
    base = {"model": "llama", "tokens": tokens, "token_type": kinds, "scores": [0.0] * 11, "add_space_prefix": False}
    ours = build(base, "gemma3")
    assert ours.encode("  a<table>") == [7, 5, 10]  # two spaces merge before a space and an a: theirs is the lower id
    assert ours.encode(" ab") == [4, 8]
    assert ours.decode([7, 5]) == "  a"


def test_chat_template_knows_the_tokens() -> None:
    _, metadata = sentencepiece()
    described = header(metadata)
    assert gguf_chat_template(described) is None
    described.metadata["tokenizer.chat_template"] = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    template = gguf_chat_template(described)
    assert template is not None
    assert template.render([{"role": "user", "content": "x"}]) == "<s>x</s>"
    described.metadata["tokenizer.chat_template"] = "{% for %}"
    with pytest.raises(ModelFormatError, match=r"tokenizer\.chat_template: .*does not parse"):
        gguf_chat_template(described)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "t5"}, "'t5' is not supported; supported are gpt2, llama"),
        ({"model": None}, "model is missing"),
        ({"pre": "klingon"}, "'klingon' is not supported; supported are default"),
        ({"tokens": ["a", "a", "b"], "merges": []}, "1 tokens appear twice"),
        ({"tokens": [1, 2, 3]}, "tokens is not a list of texts"),
        ({"tokens": "abc"}, "tokens is not a list of texts"),
        ({"token_type": [1]}, "1 token types for 3 tokens"),
        ({"merges": ["a z"]}, "merge 'a z' is not two parts of a token"),
        ({"merges": ["a b c"]}, "not two parts"),
        ({"merges": ["ab"]}, "merge 'ab' is not two parts"),
        ({"eos_token_id": 3}, "eos_token_id is 3, which is no token"),
        ({"bos_token_id": "a"}, "bos_token_id is 'a'"),
        ({"add_bos_token": 1}, "add_bos_token"),
        ({"model": "llama", "scores": [0.5]}, "1 scores for 3 tokens"),
    ],
)
def test_vocabularies_that_cannot_be(change: dict[str, Any], message: str) -> None:
    base = {"model": "gpt2", "tokens": ["a", "b", "ab"], "token_type": [1, 1, 1], "merges": ["a b"]}
    with pytest.raises(ModelFormatError, match=message):
        build(base | change)


@pytest.mark.slow
def test_known_ids_of_smollm2(smollm2_gguf: Path) -> None:
    model = load_gguf(smollm2_gguf)
    assert model.tokenizer is not None
    assert model.chat_template is not None
    assert model.tokenizer.special.add_bos is False
    assert model.tokenizer.special.eos_ids == (2, 0)
    text = "Hello world, 你好 12"
    ids = [19556, 905, 28, 216, 18645, 250, 48392, 138, 216, 33, 34]
    assert model.tokenizer.encode(text) == ids
    assert model.tokenizer.decode(ids) == text
    prompt = model.chat_template.render([{"role": "user", "content": "hi"}])
    assert model.tokenizer.encode(prompt, add_bos=True) == model.tokenizer.encode(prompt, add_bos=False)
    assert prompt.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
