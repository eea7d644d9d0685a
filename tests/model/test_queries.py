"""Query files: the shapes a line may have, and every wrong file told apart."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import pre_tokenizers
from tokenizers.models import WordLevel

from chipwise.errors import QueryFileError, RequestError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.queries import Query, read_queries
from chipwise.model.tokenizer import SpecialTokens, Tokenizer

CHAT = [{"role": "system", "content": "简短回答"}, {"role": "user", "content": "灯在哪里？"}]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def test_every_shape_of_a_line(tmp_path: Path) -> None:
    lines = [{"messages": CHAT, "id": 7}, {"prompt": "turn it on"}, {"text": "  开灯  "}]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    assert read_queries(write(tmp_path / "q.jsonl", text)) == [
        Query(messages=tuple(CHAT)),
        Query(prompt="turn it on"),
        Query(prompt="  开灯  "),
    ]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_line_endings_marks_and_blank_lines(ending: str, mark: bytes, tmp_path: Path) -> None:
    lines = ['{"prompt": "a"}', "", '  {"prompt": "开"}  ', ""]
    path = write(tmp_path / "q.jsonl", mark + ending.join(lines).encode())
    assert read_queries(path) == [Query(prompt="a"), Query(prompt="开")]
    texts = write(tmp_path / "q.txt", mark + ending.join(["turn on", "", "开灯"]).encode())
    assert read_queries(texts) == [Query(prompt="turn on"), Query(prompt="开灯")]


def test_only_line_ends_end_a_line(tmp_path: Path) -> None:
    odd = "one\u2028two\x85three\x0bfour"
    assert read_queries(write(tmp_path / "q.txt", odd)) == [Query(prompt=odd)]
    assert read_queries(write(tmp_path / "q.jsonl", json.dumps({"text": odd}, ensure_ascii=False))) == [
        Query(prompt=odd)
    ]


def test_calls_of_tools_have_no_content(tmp_path: Path) -> None:
    messages = [*CHAT, {"role": "assistant", "tool_calls": [{"id": "1"}]}, {"role": "tool", "content": "{}"}]
    path = write(tmp_path / "q.jsonl", json.dumps({"messages": messages}))
    assert read_queries(path)[0].messages == tuple(messages)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(prompts=st.lists(st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip), min_size=1, max_size=5))
def test_any_text_comes_back(prompts: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", "\n".join(json.dumps({"prompt": p}) for p in prompts))
    assert [query.prompt for query in read_queries(path)] == prompts


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=80), suffix=st.sampled_from([".jsonl", ".txt"]))
def test_any_bytes_are_read_or_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    try:
        queries = read_queries(write(tmp_path / f"q{suffix}", content))
    except QueryFileError:
        return
    assert queries


@pytest.mark.parametrize("content", [b"", b"\n\r\n  \n", codecs.BOM_UTF8])
@pytest.mark.parametrize("suffix", [".jsonl", ".txt"])
def test_empty_file(content: bytes, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match=r"q\.\w+: the file is empty; write one query a line"):
        read_queries(write(tmp_path / f"q{suffix}", content))


LINE = '{"prompt": "打开客厅的灯"}\n{"prompt": "温度是多少"}\n'


@pytest.mark.parametrize(
    ("content", "likely"),
    [
        (LINE.encode("utf-16"), "UTF-16"),
        (codecs.BOM_UTF16_BE + LINE.encode("utf-16-be"), "UTF-16"),
        (LINE.encode("utf-16-le"), "UTF-16LE"),
        (LINE.encode("utf-16-be"), "UTF-16BE"),
        (LINE.encode("utf-32"), "UTF-32"),
        (LINE.encode("gbk"), "GBK"),
        ("打开灯".encode("gb18030"), "GBK"),
        ('{"prompt": "café à Köln"}'.encode("cp1252"), "WINDOWS-1252"),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".txt"])
def test_other_encodings_are_named_with_the_way_out(content: bytes, likely: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match=f"not UTF-8 .* looks like {likely}; .*iconv -f {likely} -t UTF-8"):
        read_queries(write(tmp_path / f"q{suffix}", content))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("turn on the light", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"prompt": "a"} {"prompt": "b"}', "not JSON"),
        ('"a"', "cannot be read from str"),
        ("[]", "cannot be read from list"),
        ("{}", "cannot be read from"),
        ('{"question": "a", "id": 1}', "from the keys question, id"),
        ('{"prompt": 3}', "prompt is no text"),
        ('{"prompt": " "}', "prompt is empty"),
        ('{"text": null}', "text is no text"),
        ('{"prompt": "\\ud83d"}', "ud83d is half of a surrogate pair"),
        ('{"messages": []}', "messages is not a list of objects"),
        ('{"messages": "hi"}', "messages is not a list of objects"),
        ('{"messages": ["hi"]}', "messages is not a list of objects"),
        ('{"messages": [{"content": "hi"}]}', "role is no text"),
        ('{"messages": [{"role": "user"}]}', "content is no text"),
        ('{"messages": [{"role": "user", "content": [{"type": "image"}]}]}', "content is no text"),
    ],
)
def test_malformed_lines_are_named_by_number(line: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", '{"prompt": "fine"}\n\n' + line + "\n")
    with pytest.raises(QueryFileError, match=message) as caught:
        read_queries(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert "\n" not in str(caught.value)


def test_missing_file_folder_and_pointer(tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match="no such file; name a file with lines like"):
        read_queries(tmp_path / "none.jsonl")
    with pytest.raises(QueryFileError, match="not a file; name a file with lines like"):
        read_queries(tmp_path)
    with pytest.raises(QueryFileError, match="LFS pointer"):
        read_queries(write(tmp_path / "q.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n"))


@pytest.fixture
def tokenizer() -> Tokenizer:
    fast = FastTokenizer(WordLevel({"<s>": 0, "user:": 1, "hi": 2, "?": 3}, unk_token="?"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(fast, SpecialTokens(bos_id=0, eos_ids=(), pad_id=None, add_bos=True))


TEMPLATE = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}")


@pytest.mark.parametrize(
    ("query", "template", "ids"),
    [
        (Query(prompt="hi"), None, [0, 2]),
        (Query(prompt="hi"), TEMPLATE, [1, 2]),
        (Query(messages=({"role": "user", "content": "hi"},)), TEMPLATE, [1, 2]),
    ],
)
def test_tokens_as_the_model_gets_them(
    query: Query, template: ChatTemplate | None, ids: list[int], tokenizer: Tokenizer
) -> None:
    assert query.tokens(tokenizer, template) == ids


@pytest.mark.parametrize(
    ("source", "message", "what"),
    [
        ("{{ x.y }}", {"role": "user", "content": "hi"}, "fails on these messages ('x' is undefined)"),
        ("{{ raise_exception('no') }}", {"role": "user", "content": "hi"}, "refuses these messages: no"),
        ("{{ messages }}", {"role": "tool", "content": None}, "messages[0].content: is no text, but NoneType"),
    ],
)
def test_what_a_template_refuses_names_its_file_and_the_query(
    source: str, message: dict[str, Any], what: str, tokenizer: Tokenizer
) -> None:
    template = ChatTemplate(source, where="m/chat_template.jinja")
    with pytest.raises(RequestError) as caught:
        Query(messages=(message,)).tokens(tokenizer, template)
    text = str(caught.value)
    assert text.startswith(f'm/chat_template.jinja, messages [{{"role": "{message["role"]}"')
    assert what in text
    assert text.endswith("; correct these messages, or the template if they are right")


def test_a_long_query_is_cut_short_in_an_error(tokenizer: Tokenizer) -> None:
    with pytest.raises(RequestError) as caught:
        Query(prompt="x" * 10_000).tokens(tokenizer, ChatTemplate("{{ x.y }}"))
    assert len(str(caught.value)) < 400


def test_a_conversation_needs_a_template(tokenizer: Tokenizer) -> None:
    messages: tuple[dict[str, Any], ...] = ({"role": "user", "content": "hi"},)
    with pytest.raises(QueryFileError, match="no chat template"):
        Query(messages=messages).tokens(tokenizer, None)
