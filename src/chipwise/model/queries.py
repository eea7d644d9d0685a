"""Queries: what users ask the model, from a file of theirs."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chipwise.errors import QueryFileError, RequestError
from chipwise.files import read_bounded
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import Tokenizer

Message = dict[str, Any]

_MAX_BYTES = 1 << 30
_SHOWN_CHARACTERS = 120
_SHAPES = '{"messages": [...]}, {"prompt": "..."} or {"text": "..."}'
# The longer mark first: UTF-32's begins with UTF-16's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True)
class Query:
    """One request: a conversation, or one text.

    Attributes:
        messages: The conversation, each with ``role`` and ``content``; empty for a text.
        prompt: The text; None for a conversation.
        tools: Descriptions of the tools that the answer may call, for chat templates that show them.
    """

    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    tools: tuple[Message, ...] = ()

    def tokens(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> list[int]:
        """The token ids the model would be given: through its chat template if it has one.

        A text becomes the one user message of a conversation; without a template it stays as it is.

        Raises:
            RequestError: The template refuses the conversation.
            QueryFileError: A conversation, and the model has no template.
        """
        messages = list(self.messages) or [{"role": "user", "content": self.prompt}]
        if template is not None:
            return tokenizer.encode(_rendered(template, messages, self.tools), add_bos=False)
        if self.prompt is None:
            raise QueryFileError(
                "the model has no chat template, so it takes no conversations", remedy='use {"prompt": "..."} lines'
            )
        return tokenizer.encode(self.prompt)


def _rendered(template: ChatTemplate, messages: list[Message], tools: tuple[Message, ...]) -> str:
    try:
        return template.render(messages, tools=tools)
    except RequestError as e:
        # What a server says of one request says here neither which query of a file it was nor whose template.
        asked = json.dumps(messages, ensure_ascii=False)
        shown = asked if len(asked) <= _SHOWN_CHARACTERS else asked[:_SHOWN_CHARACTERS] + "..."
        where = f"{template.where or 'chat template'}, messages {shown}"
        remedy = "correct these messages, or the template if they are right"
        what = f"{e.where}: {e.what}" if e.where else e.what
        raise RequestError(what, where=where, remedy=remedy, code=e.code, param=e.param) from e


def read_queries(path: Path) -> list[Query]:
    """The queries of a file: one JSON object a line, or in a ``.txt`` one text a line. Blank lines are skipped.

    Raises:
        QueryFileError: The file is missing, empty, in another encoding than UTF-8, or has a malformed line.
    """
    lines = numbered_lines(path)
    if path.suffix == ".txt":
        return [Query(prompt=line) for _, line in lines]
    return [query_of(json_object(line, f"{path}:{number}"), f"{path}:{number}") for number, line in lines]


def numbered_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a text file that are not blank, without outer white space, each with its number from 1.

    Raises:
        QueryFileError: The file is missing, empty, or in another encoding than UTF-8.
    """
    # splitlines() would also split at characters that may stand inside a text, such as U+2028
    lines = _decoded(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    numbered = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise QueryFileError("the file is empty", where=str(path), remedy=f"write one query a line: {_SHAPES}")
    return numbered


def _decoded(path: Path) -> str:
    raw = read_bounded(path, _MAX_BYTES, error=QueryFileError, remedy=f"name a file with lines like {_SHAPES}")
    try:
        if _wide(raw) is None:
            return raw.decode("utf-8-sig")
        problem = "every second byte is zero"
    except UnicodeDecodeError as e:
        problem = f"byte {e.start + 1} is none"
    likely = _likely_encoding(raw)
    raise QueryFileError(
        f"not UTF-8 ({problem}); it looks like {likely}",
        where=str(path),
        remedy=f"convert it with `iconv -f {likely} -t UTF-8`",
    )


def _wide(raw: bytes) -> str | None:
    """UTF-16 or UTF-32 by its mark or, without one, by the zero bytes beside ASCII; None if neither."""
    for mark, name in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return name
    head = raw[:200]
    if head[1::2].count(0) > len(head) // 5:
        return "UTF-16LE"
    return "UTF-16BE" if head[0::2].count(0) > len(head) // 5 else None


def _likely_encoding(raw: bytes) -> str:
    wide = _wide(raw)
    if wide is not None:
        return wide
    try:
        raw.decode("gb18030")
    except UnicodeDecodeError:
        return "WINDOWS-1252"
    return "GBK"


def json_object(line: str, where: str) -> dict[str, Any]:
    """The fields of a line.

    Raises:
        QueryFileError: The line is no JSON object, names a field twice, or holds a text that is none.
    """
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = Counter(name for name, _ in pairs)
        twice.extend(name for name, count in names.items() if count > 1)
        return dict(pairs)

    try:
        fields = json.loads(line, object_pairs_hook=once)
    except (ValueError, RecursionError) as e:
        raise QueryFileError(f"not JSON ({e})", where=where, remedy=f"write one object a line: {_SHAPES}") from e
    if twice:
        raise QueryFileError(
            f"the field {twice[0]!r} comes twice", where=where, remedy="keep one: nothing says which is meant"
        )
    if not isinstance(fields, dict):
        found = type(fields).__name__
        raise QueryFileError(f"a query cannot be read from {found}", where=where, remedy=f"write {_SHAPES}")
    _refuse_no_text(fields, where)
    return fields


def _refuse_no_text(fields: dict[str, Any], where: str) -> None:
    """Refuse what only JSON's reader takes: half of a surrogate pair, and NaN. Neither can be written again."""
    try:
        json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as e:
        half = f"\\u{ord(e.object[e.start]):04x}"
        raise QueryFileError(
            f"{half} is half of a surrogate pair, which is no character",
            where=where,
            remedy="write the character whole",
        ) from e
    except ValueError as e:
        raise QueryFileError("NaN and Infinity are no JSON", where=where, remedy="write a number, or a text") from e


def query_of(fields: dict[str, Any], where: str) -> Query:
    """The query that some fields hold: a conversation or a text, and ``tools``; other fields are left alone.

    Raises:
        QueryFileError: They hold none, or one that is malformed.
    """
    tools = _tools(fields.get("tools"), where)
    if "messages" in fields:
        return Query(messages=_messages(fields["messages"], where), tools=tools)
    for key in ("prompt", "text"):
        if key in fields:
            prompt = _text(fields[key], key, where)
            if not prompt.strip():
                raise QueryFileError(f"{key} is empty", where=where, remedy=f"write {_SHAPES}")
            return Query(prompt=prompt, tools=tools)
    found = f"the keys {', '.join(fields)}"
    raise QueryFileError(f"a query cannot be read from {found}", where=where, remedy=f"write {_SHAPES}")


def _messages(messages: Any, where: str) -> tuple[Message, ...]:
    well_formed = isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)
    if not well_formed:
        raise QueryFileError("messages is not a list of objects", where=where, remedy=f"write {_SHAPES}")
    for message in messages:
        _text(message.get("role"), "role", where)
        # an assistant's message may hold calls of tools and no text
        if message.get("content") is not None or "tool_calls" not in message:
            _text(message.get("content"), "content", where)
    return tuple(messages)


def _tools(tools: Any, where: str) -> tuple[Message, ...]:
    """Tools in OpenAI's shape, or as plain functions."""
    if tools is None:
        return ()
    named = isinstance(tools, list) and all(
        isinstance(tool, dict) and isinstance(_function(tool).get("name"), str) for tool in tools
    )
    if not named:
        raise QueryFileError(
            "tools is no list of functions with names",
            where=where,
            remedy='write "tools": [{"type": "function", "function": {"name": "...", "parameters": {...}}}]',
        )
    return tuple(tools)


def _function(tool: Message) -> Message:
    function = tool.get("function", tool)
    return function if isinstance(function, dict) else {}


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise QueryFileError(f"{name} is no text", where=where, remedy=f"write {_SHAPES}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as e:
        raise QueryFileError(
            f"{name} holds half a character (\\u{ord(value[e.start]):04x})",
            where=where,
            remedy="write the whole character",
        ) from e
    return value
