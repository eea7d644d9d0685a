from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models, pre_tokenizers

from chipwise.errors import QueryFileError
from chipwise.files import sha256_file
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import SpecialTokens, Tokenizer
from chipwise.verify.case import DEFAULT_MAX_TOKENS
from chipwise.verify.domains import generate
from chipwise.verify.suite import read_suite

GOOD = {"id": "a", "prompt": "turn on the lamp", "keywords": ["lamp"]}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "suite.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return path


def test_reads_cases_in_order(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "t: 31"}, {"role": "user", "content": "开灯"}]
    path = written(
        tmp_path, GOOD, "", {"id": "b", "messages": messages, "expected": "好", "max_tokens": 5, "lang": "zh"}
    )
    suite = read_suite(path)
    assert suite.name == "suite"
    assert suite.sha256 == sha256_file(path)
    first, second = suite.cases
    assert (first.id, first.text, first.keywords) == ("a", "turn on the lamp", ("lamp",))
    assert first.max_tokens == DEFAULT_MAX_TOKENS
    assert second.text == "system: t: 31\nuser: 开灯"
    assert (second.expected, second.max_tokens, second.labels) == ("好", 5, {"lang": "zh"})


def test_a_case_without_keywords_is_scored_by_the_entities_of_its_answer(tmp_path: Path) -> None:
    answer = '{"tool":"set","value":26}'
    path = written(
        tmp_path,
        {"id": "a", "prompt": "q", "expected": answer},
        {"id": "b", "prompt": "q", "expected": answer, "keywords": []},
        {"id": "c", "prompt": "q"},
    )
    assert [case.keywords for case in read_suite(path).cases] == [("set", "26"), (), ()]


def test_reads_what_the_domains_generate(tmp_path: Path) -> None:
    cases = generate("home", 20, seed=1, split="heldout")
    found = read_suite(written(tmp_path, *(asdict(case) for case in cases))).cases
    assert [(c.id, c.keywords, c.expected) for c in found] == [(c.id, c.keywords, c.expected) for c in cases]
    assert found[1].labels == {"domain": "home", "lang": "zh", "kind": "tool_call"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "list"),
        ({"prompt": "q"}, "no id"),
        ({"id": " ", "prompt": "q"}, "no id"),
        ({"id": 7, "prompt": "q"}, "no id"),
        ({"id": "b"}, "a query cannot be read"),
        ({"id": "b", "prompt": "  "}, "empty"),
        ({"id": "b", "messages": []}, "messages"),
        ({"id": "b", "messages": [{"role": "user"}]}, "content"),
        ({"id": "b", "prompt": "q", "expected": {"tool": "x"}}, "expected is no text"),
        ({"id": "b", "prompt": "q", "keywords": "lamp"}, "keywords is no list"),
        ({"id": "b", "prompt": "q", "keywords": [26]}, "keywords is no list"),
        ({"id": "b", "prompt": "q", "keywords": ["lamp", " \u3000"]}, "a keyword is empty"),
        ({"id": "b", "prompt": "q", "max_tokens": 0}, "max_tokens is 0"),
        ({"id": "b", "prompt": "q", "max_tokens": True}, "max_tokens is True"),
        ({"id": "b", "prompt": "q", "max_tokens": "9"}, "max_tokens is '9'"),
        ({"id": "b", "prompt": "q", "lang": 3}, "lang is no text"),
        ({"id": "b", "prompt": "q", "keyword": ["lamp"]}, "no field of a case is named 'keyword'"),
        ({"id": "a", "prompt": "again"}, "a second case named 'a'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: object, message: str) -> None:
    path = written(tmp_path, GOOD, "", line)
    with pytest.raises(QueryFileError) as caught:
        read_suite(path)
    assert message in str(caught.value)
    assert f"{path}:3" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n \n", json.dumps(GOOD).encode("utf-16"), '{"id":"开"}'.encode("gbk")])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "suite.jsonl"
    path.write_bytes(content)
    with pytest.raises(QueryFileError):
        read_suite(path)
    with pytest.raises(QueryFileError, match="no such file"):
        read_suite(tmp_path / "none.jsonl")


def tokenizer(*, add_bos: bool = True) -> Tokenizer:
    words = ["<s>", "</s>", "[INST]", "turn", "on", "the", "lamp", "?"]
    fast = FastTokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast.add_special_tokens(words[:3])
    return Tokenizer(fast, SpecialTokens(bos_id=0, eos_ids=(1,), pad_id=1, add_bos=add_bos))


def encoded(folder: Path, case: dict[str, Any], template: str | None, *, add_bos: bool = True) -> tuple[int, ...]:
    chat = ChatTemplate(template, bos_token="<s>") if template else None
    return read_suite(written(folder, case)).cases[0].encode(tokenizer(add_bos=add_bos), chat).tokens


CHAT = {"id": "a", "messages": [{"role": "user", "content": "turn on the lamp"}]}


@pytest.mark.parametrize("add_bos", [True, False])
def test_a_template_that_writes_the_start_token_does_not_get_a_second(tmp_path: Path, add_bos: bool) -> None:
    template = "{{ bos_token }} [INST] {{ messages[0].content }}"
    assert encoded(tmp_path, CHAT, template, add_bos=add_bos) == (0, 2, 3, 4, 5, 6)


def test_a_template_without_a_start_token_gets_none(tmp_path: Path) -> None:
    assert encoded(tmp_path, CHAT, "[INST] {{ messages[0].content }}") == (2, 3, 4, 5, 6)


def test_bare_text_follows_the_tokenizers_habit(tmp_path: Path) -> None:
    assert encoded(tmp_path, {"id": "a", "prompt": "turn on"}, None) == (0, 3, 4)
    assert encoded(tmp_path, {"id": "a", "prompt": "turn on"}, None, add_bos=False) == (3, 4)


def test_a_conversation_needs_a_template(tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match="no chat template"):
        encoded(tmp_path, CHAT, None)


def test_prompts_carry_the_answers_length(tmp_path: Path) -> None:
    suite = read_suite(written(tmp_path, {**GOOD, "max_tokens": 7}))
    prompt = suite.cases[0].encode(tokenizer(), None)
    assert prompt.max_tokens == 7
    assert prompt.context == len(prompt.tokens) + 7
