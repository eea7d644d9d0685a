"""Calls of tools in other notations than JSON, rewritten as JSON where they stand."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from chipwise.verify.scoring.json_text import VALUE_START, twice_kept

# What begins a value or a call and cannot be read; more of them are damage.
_MOST_TRIES = 100
_LONGEST_ARGUMENTS = 4000

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,79}"
_TAGGED = (
    rf"<function=(?P<function>{_NAME})>"
    rf"|<invoke name=\"(?P<invoke>{_NAME})\">"
    rf"|\[TOOL_CALLS\]\s?(?P<mistral>{_NAME})(?:\[CALL_ID\][A-Za-z0-9_-]{{0,40}})?(?:\[ARGS\])?\s?(?=\{{)"
    rf"|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>(?P<deepseek>{_NAME})\s{{0,2}}```json\s{{0,2}}"
    rf"|(?P<sep>{_NAME})<｜tool▁sep｜>)(?=\{{)"
    rf"|<\|tool_call_begin\|>(?P<kimi>{_NAME}):\d{{1,3}}<\|tool_call_argument_begin\|>(?=\{{)"
    rf"|✿FUNCTION✿:\s?(?P<qwen>{_NAME})\s{{0,2}}✿ARGS✿:\s?(?=\{{)"
    rf"|to=functions\.(?P<channel>{_NAME})[^{{}}\n]{{0,80}}(?=\{{)"
    rf"|(?<![^\n])[ \t]{{0,8}}Action:[ \t]{{0,8}}(?P<action>{_NAME})[ \t]{{0,8}}"
    rf"(?:\n\s{{0,8}}(?P<given>Action Input:)[ \t]{{0,8}}|(?![^\n]))"
    rf"|(?<![A-Za-z0-9_])call:(?P<braced>{_NAME})(?=\{{)"
)
_START = re.compile(
    rf"{_TAGGED}|(?<![A-Za-z0-9_.<\"'-])(?P<python>[A-Za-z_][A-Za-z0-9_.]{{0,79}})\(|(?P<json>{VALUE_START})"
)
_PARAMETER = re.compile(
    r"\s*<parameter(?:=(?P<name>[^<>]{1,80})|\s+name=\"(?P<named>[^\"<>]{1,80})\")>(?P<value>.*?)</parameter>",
    re.DOTALL,
)
_CLOSING = {"function": "</function>", "invoke": "</invoke>"}
_AFTER_JSON = re.compile(r"\s{0,2}(?:```)?\s{0,2}(?:<｜tool▁call▁end｜>|<\|tool_call_end\|>)?(?:<\|call\|>)?")
# Llama's built-in tools are called with .call, OpenAI's with a namespace.
_AROUND_NAME = re.compile(r"^functions\.|\.call$")
_NO_ACTION = ("none", "nothing", "n", "finish", "final")
# turn_on and setLevel are names of functions, light_1, WiFi and iPhone are none.
_FUNCTION = re.compile(r"[A-Za-z]+(?:_[A-Za-z0-9]+)*_[A-Za-z]+|[a-z]{2,}(?:[A-Z][a-z]+)+")
_LINE = 200
_BEFORE_ALONE = re.compile(r"(?:\s|`|\[|<\|python_tag\|>|<tool_call>|print\(|- |\d\. )*")
_BEHIND_ALONE = re.compile(r"(?:[\s`\]);,.。]|</tool_call>|<\|[a-z_]{1,12}\|>)*")
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def calls_as_json(text: str, names: Collection[str] = ()) -> str:
    """The text with each call that is not written in JSON as a JSON object with ``name`` and ``arguments``.

    Read are ``<function=NAME>`` and ``<invoke name="NAME">`` with an object or parameters, ``[TOOL_CALLS]NAME``,
    ``to=functions.NAME`` and the marks of DeepSeek, Kimi and Qwen with an object, ``Action:`` and ``Action Input:``,
    and ``name(argument=value)``. Arguments that cannot be read, or have no name, stay in the object as one that no tool
    has: a call it is. JSON, and what stands inside it, is left alone.

    Args:
        text: An answer.
        names: Tools that are known. Of others ``name(...)`` is a call if the name is one of a function (``turn_on``,
            ``setLevel``), if all arguments are named, or if nothing else stands in its line.
    """
    parts: list[str] = []
    at = searched = tries = 0
    decoder = json.JSONDecoder(object_pairs_hook=twice_kept)
    while tries < _MOST_TRIES and (match := _START.search(text, searched)) is not None:
        if match["json"]:
            try:
                searched = decoder.raw_decode(text, match.start())[1]
            except (ValueError, RecursionError):
                tries += 1
                searched = match.end()
            continue
        made = _read(match, text, names)
        if made is None:
            searched = match.end()
            continue
        name, arguments, end = made
        written = {"name": _AROUND_NAME.sub("", name), "arguments": arguments}
        tries += 1
        parts += [text[at : match.start()], json.dumps(written, ensure_ascii=False)]
        at = searched = end
    return "".join(parts) + text[at:]


_Call = tuple[str, Mapping[str, Any], int]


def _read(match: re.Match[str], text: str, names: Collection[str]) -> _Call | None:
    """Name, arguments and end of a call; None if it is none."""
    kind = "action" if match["action"] else match.lastgroup or ""
    return _READERS[kind](match[kind], match, text, names)


def _of_tag(name: str, match: re.Match[str], text: str, _: Collection[str]) -> _Call:
    closing = _CLOSING[match.lastgroup or ""]
    inside, found, _rest = text[match.end() : match.end() + _LONGEST_ARGUMENTS].partition(closing)
    end = match.end() + len(inside) + len(found)
    if (whole := _object(inside)) is not None:
        return name, whole, end
    arguments: dict[str, Any] = {}
    at = 0
    while (given := _PARAMETER.match(inside, at)) is not None:
        key, value = given["name"] or given["named"], _parameter(given["value"].strip())
        arguments[key] = value if arguments.get(key, value) == value else [arguments[key], value]
        at = given.end()
    return name, (_unread(inside[at:]) | arguments if inside[at:].strip() else arguments), end


def _of_object(name: str, match: re.Match[str], text: str, _: Collection[str]) -> _Call:
    try:
        arguments, end = json.JSONDecoder(object_pairs_hook=_no_twins).raw_decode(text, match.end())
    except (ValueError, RecursionError):
        return name, _unread(text[match.end() :]), len(text)
    after = _AFTER_JSON.match(text, end)
    return name, arguments, after.end() if after else end


def _of_action(name: str, match: re.Match[str], text: str, names: Collection[str]) -> _Call | None:
    if name.lower() in _NO_ACTION:
        return None
    if not match["given"]:
        return (name, {}, match.end()) if name in names else None
    if text.startswith("{", match.end()):
        return _of_object(name, match, text, names)
    line = text[match.end() :].split("\n", 1)[0]
    return name, _unread(line), match.end() + len(line)


def _of_braces(name: str, match: re.Match[str], text: str, _: Collection[str]) -> _Call:
    inside, found, _rest = text[match.end() : match.end() + _LONGEST_ARGUMENTS].partition("}")
    return name, _unread(inside), match.end() + len(inside) + len(found)


def _of_python(name: str, match: re.Match[str], text: str, names: Collection[str]) -> _Call | None:
    bare = _AROUND_NAME.sub("", name).rpartition(".")[2]
    if bare == "print" and bare not in names:
        # It shows what the call inside gives.
        return None
    known = bare in names or _FUNCTION.fullmatch(bare) is not None
    leads = _BEFORE_ALONE.fullmatch(text[max(0, match.start() - _LINE) : match.start()].rpartition("\n")[2]) is not None
    near = text[match.end() : match.end() + 2 * _LINE]
    if not known and (")" not in near or not (leads or "=" in near)):
        return None
    end = _closing_bracket(text, match.end() - 1, _LONGEST_ARGUMENTS if known else 2 * _LINE)
    if end is None:
        return (name, _unread(text[match.end() :]), len(text)) if known else None
    alone = leads and _BEHIND_ALONE.fullmatch(text[end : end + _LINE].partition("\n")[0]) is not None
    inside = text[match.end() : end - 1]
    if not inside.strip():
        # "I need not call turn_on()" names a function.
        return (name, {}, end) if alone else None
    arguments = _arguments(inside)
    if arguments is None:
        return (name, _unread(inside), end) if known or alone else None
    return (name, arguments, end) if known or alone or _UNNAMED not in arguments else None


_UNNAMED = "arguments without a name"


def _arguments(inside: str) -> dict[str, Any] | None:
    """The arguments in the brackets of a call; None if they cannot be read. A bare word is a text."""
    try:
        call = ast.parse(f"f({inside})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call):
        return None
    try:
        unnamed = [_literal(value) for value in call.args]
        named = [(key.arg, _literal(key.value)) for key in call.keywords if key.arg]
        json.dumps([unnamed, named])
    except (ValueError, TypeError, RecursionError):
        return None
    if len(unnamed) == 1 and not named and isinstance(unnamed[0], dict):
        return {str(key): value for key, value in unnamed[0].items()}
    if len(named) != len(call.keywords) or len({key for key, _ in named}) != len(named):
        return None
    return {str(key): value for key, value in named} | ({_UNNAMED: unnamed} if unnamed else {})


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False, "null": None}.get(node.id, node.id)
    return ast.literal_eval(node)


def _closing_bracket(text: str, start: int, within: int) -> int | None:
    """Where the bracket at ``start`` is closed; None if it is not within so many characters."""
    last = min(len(text), start + within)
    waiting: list[str] = []
    quote = ""
    at = start
    while at < last:
        letter = text[at]
        at += 1
        if quote:
            at += letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{":
            waiting.append(letter)
        elif letter in _BRACKETS and waiting and waiting.pop() == _BRACKETS[letter] and not waiting:
            return at
    return None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parameter(text: str) -> Any:
    """A parameter's value: an object or array if it is one, else the text; what it means is told by comparing."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        return text


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object, where none comes twice with two values."""
    fields = twice_kept(pairs)
    if any(isinstance(value, tuple) for value in fields.values()):
        raise ValueError("a field comes twice")
    return fields


def _unread(text: str) -> dict[str, Any]:
    return {"arguments that cannot be read": text.strip()[:200]}


_READERS: Mapping[str, Callable[[str, re.Match[str], str, Collection[str]], _Call | None]] = {
    **dict.fromkeys(("function", "invoke"), _of_tag),
    **dict.fromkeys(("mistral", "deepseek", "sep", "channel", "kimi", "qwen"), _of_object),
    "action": _of_action,
    "braced": _of_braces,
    "python": _of_python,
}
