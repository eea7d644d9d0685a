"""tokenizer.json and what lies beside it: start, end and padding tokens, templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel

from chipwise.errors import ModelFormatError
from chipwise.model.importer.hf_tokenizer import hf_chat_template, hf_tokenizer
from chipwise.model.tokenizer import SpecialTokens

VOCAB = {"<s>": 0, "</s>": 1, "<|im_end|>": 2, "<pad>": 3, "hello": 4, "world": 5, "[CLS]": 6, "[SEP]": 7, "a": 8}


def word_tokenizer() -> Tokenizer:
    fast = Tokenizer(WordLevel(VOCAB, unk_token="<pad>"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return fast


def write(folder: Path, fast: Tokenizer | None = None, **files: Any) -> Path:
    if fast is not None:
        fast.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return folder


def read(folder: Path) -> SpecialTokens:
    tokenizer = hf_tokenizer(folder)
    assert tokenizer is not None
    return tokenizer.special


def test_no_file_no_tokenizer(tmp_path: Path) -> None:
    assert hf_tokenizer(tmp_path) is None
    assert hf_chat_template(tmp_path) is None


def test_start_token_is_added_if_the_post_processor_adds_it(tmp_path: Path) -> None:
    fast = word_tokenizer()
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>", "add_bos_token": True}
    special = read(write(tmp_path, fast, tokenizer_config=config))
    # tokenizer_config.json's add_bos_token is no word on what tokenizer.json does
    assert special == SpecialTokens(bos_id=0, eos_ids=(1, 2), pad_id=3, add_bos=False)
    fast.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    assert read(write(tmp_path, fast)).add_bos


def test_a_post_processor_that_only_ends_text_adds_no_start(tmp_path: Path) -> None:
    fast = word_tokenizer()
    fast.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = read(write(tmp_path, fast, tokenizer_config={"eos_token": "</s>"}))
    assert not special.add_bos
    assert special.bos_id is None


def test_encoders_are_framed(tmp_path: Path) -> None:
    fast = word_tokenizer()
    fast.post_processor = processors.BertProcessing(("[SEP]", 7), ("[CLS]", 6))
    config = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "<pad>"}
    tokenizer = hf_tokenizer(write(tmp_path, fast, tokenizer_config=config))
    assert tokenizer is not None
    assert (tokenizer.special.bos_id, tokenizer.special.eos_ids) == (6, (7, 2))
    assert tokenizer.encode_framed("hello world") == [6, 4, 5, 7]
    assert tokenizer.encode("hello world", add_bos=False) == [4, 5]


def test_padding_and_truncation_of_the_file_are_dropped(tmp_path: Path) -> None:
    fast = word_tokenizer()
    fast.enable_padding(length=8, pad_id=3, pad_token="<pad>")
    fast.enable_truncation(2)
    tokenizer = hf_tokenizer(write(tmp_path, fast))
    assert tokenizer is not None
    assert tokenizer.encode("hello world hello") == [4, 5, 4]


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({"generation_config": {"eos_token_id": [5, 1]}, "config": {"eos_token_id": 4}}, (5, 1, 4, 2)),
        ({"config": {"eos_token_id": 4}, "tokenizer_config": {"eos_token": "</s>"}}, (4, 1, 2)),
        ({"special_tokens_map": {"eos_token": "</s>"}}, (1, 2)),
        ({"tokenizer_config": {"eos_token": "no such token"}}, (2,)),
        ({"config": {"eos_token_id": None}}, (2,)),
    ],
)
def test_end_tokens(files: dict[str, Any], ends: tuple[int, ...], tmp_path: Path) -> None:
    assert read(write(tmp_path, word_tokenizer(), **files)).eos_ids == ends


def test_tokenizer_config_wins_over_the_map(tmp_path: Path) -> None:
    files = {"tokenizer_config": {"pad_token": "<pad>"}, "special_tokens_map": {"pad_token": "hello"}}
    assert read(write(tmp_path, word_tokenizer(), **files)).pad_id == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a tokenizer.json"),
        (b"{}", "not a tokenizer.json"),
        (b'{"model": {"type": "Oracle"}}', "not a tokenizer.json"),
        (b"\xff\xfe{", "not UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS pointer"),
    ],
)
def test_what_is_no_tokenizer(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelFormatError, match=message) as caught:
        hf_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


MESSAGES = [{"role": "user", "content": "hi"}]
TEMPLATE = "{{ bos_token }}{{ messages[0].content }}"


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config": {"chat_template": TEMPLATE, "bos_token": "<s>"}},
        {"tokenizer_config": {"bos_token": "<s>"}, "chat_template": {"chat_template": TEMPLATE}},
        {
            "tokenizer_config": {
                "bos_token": {"content": "<s>"},
                "chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": TEMPLATE}],
            }
        },
        {"tokenizer_config": {"bos_token": "<s>", "chat_template": [{"name": "only", "template": TEMPLATE}]}},
    ],
)
def test_places_of_a_template(files: dict[str, Any], tmp_path: Path) -> None:
    template = hf_chat_template(write(tmp_path, **files))
    assert template is not None
    assert template.render(MESSAGES) == "<s>hi"


def test_a_jinja_file_wins(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config={"chat_template": "old"})
    (tmp_path / "chat_template.jinja").write_text("new 你好", "utf-8")
    template = hf_chat_template(tmp_path)
    assert template is not None
    assert template.render(MESSAGES) == "new 你好"
    assert template.where == str(tmp_path / "chat_template.jinja")


@pytest.mark.parametrize(("template", "message"), [(3, "no text"), ([], "no text"), ("{% if %}", "does not parse")])
def test_what_is_no_template(template: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        hf_chat_template(write(tmp_path, tokenizer_config={"chat_template": template}))
    assert caught.value.where == str(tmp_path / "tokenizer_config.json")
    assert caught.value.remedy
