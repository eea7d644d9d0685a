"""CallForm: how a model writes a tool call, read off what its chat template makes of a past one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chipwise.errors import RequestError
from chipwise.model.chat_template import ChatTemplate

_NAMES = ("probe_alpha", "probe_beta")
_IDS = ("idalpha01", "idbeta002")  # nine letters and digits: Mistral's templates take no others
_ARGUMENTS = {"probe_key": "probe_value"}
_ASK = {"role": "user", "content": "probe_question"}
_HERMES = "<tool_call>"
# Templates refuse with RequestError what they cannot write, such as two calls at once.
_HOW = ("as an object", "as text")


@dataclass(frozen=True)
class CallForm:
    """The text around names and arguments: ``opener NAME middle ARGUMENTS (joint NAME middle ARGUMENTS)* closer``.

    Attributes:
        opener: What stands before the first name, such as ``<tool_call>`` and ``{"name": "``.
        middle: What stands between a name and its arguments.
        joint: What stands between two calls; None if the template writes one only.
        closer: What stands behind the last arguments.
        name_key: The field of a call that holds the name.
        arguments_key: The field that holds the arguments.
        arguments_as_text: Whether the template takes arguments as JSON text instead of an object.
    """

    opener: str
    middle: str
    joint: str | None
    closer: str
    name_key: str = "name"
    arguments_key: str = "arguments"
    arguments_as_text: bool = False

    @property
    def marker(self) -> str:
        """What tells a call from text, without spaces around; empty if that is its bracket."""
        return self.opener[: self.opener.index("{")].strip()

    @property
    def end_marker(self) -> str:
        """What follows a call's JSON, without spaces around."""
        return self.closer[self.closer.index("}") + 1 :].strip()


HERMES = CallForm(
    f'{_HERMES}\n{{"name": "',
    '", "arguments": ',
    f'}}\n</tool_call>\n{_HERMES}\n{{"name": "',
    "}\n</tool_call>",
)
PLAIN = CallForm('{"name": "', '", "arguments": ', None, "}")


def call_form(template: ChatTemplate, ends: Iterable[str]) -> CallForm:
    """The form in which a template writes calls.

    A template that shows tools but no past calls is taken to mean Hermes' form if it names its mark, else plain JSON.

    Args:
        template: The template.
        ends: How the tokens that end an answer read.

    Raises:
        RequestError: It has no place for tools, or writes calls in another form than one JSON object each.
    """
    if not template.takes_tools:
        raise _refused("the model's chat template has no place for tools")
    shown = False
    for as_text in (False, True):
        one = _rendered(template, 1, as_text=as_text)
        if one is None or _NAMES[0] not in one:
            continue
        shown = True
        parts = _split(one, 1, [end for end in ends if end])
        if parts is not None:
            two = _rendered(template, 2, as_text=as_text)
            both = None if two is None else _split(two, 2, [end for end in ends if end])
            return _form(parts, None if both is None or both[0] != parts[0] else both[2], as_text=as_text)
    if shown:
        raise _refused("the model's chat template writes tool calls in a form that this server does not know")
    return HERMES if _HERMES in template.source else PLAIN


def _rendered(template: ChatTemplate, n_calls: int, *, as_text: bool) -> str | None:
    """What an answer with calls reads like in a conversation that went on; None if the template fails on it."""
    arguments: Any = json.dumps(_ARGUMENTS) if as_text else _ARGUMENTS
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, call_id in zip(_NAMES[:n_calls], _IDS, strict=False)
    ]
    results = [
        {"role": "tool", "content": "probe_result", "name": name, "tool_call_id": call_id}
        for name, call_id in zip(_NAMES[:n_calls], _IDS, strict=False)
    ]
    answer = {"role": "assistant", "content": "", "tool_calls": calls}
    tools = [
        {
            "type": "function",
            "function": {"name": "probe_tool", "description": "", "parameters": {"type": "object", "properties": {}}},
        }
    ]
    try:
        start = template.render([_ASK], tools=tools)
        whole = template.render([_ASK, answer, *results, _ASK], tools=tools, add_generation_prompt=False)
    except RequestError:
        return None
    # Some templates move the tools to the last question: what the answer follows is then that question itself.
    tail = start[start.rindex(_ASK["content"]) :] if _ASK["content"] in start else start
    at = whole.find(tail)
    return None if at < 0 else whole[at + len(tail) :]


def _split(text: str, n_calls: int, ends: Sequence[str]) -> tuple[str, str, str | None, str] | None:
    """Opener, middle, joint and closer of an answer; None if its calls are not JSON, or hold their ids."""
    # Where an answer ends is known by the token that ends it.
    cut = min((at for end in ends if (at := text.find(end)) >= 0), default=-1)
    text = text[:cut] if cut >= 0 else text
    if any(call_id in text for call_id in _IDS) or (cut < 0 and "probe_result" in text):
        return None
    between: list[str] = []
    for name in _NAMES[:n_calls]:
        before, found, text = text.partition(name)
        start = text.find("{")
        if not found or start < 0:
            return None
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            return None
        if value != _ARGUMENTS:
            return None
        between += [before, text[:start]]
        text = text[end:]
    if "{" not in between[0] or "}" not in text or _NAMES[1] in text:
        return None
    return between[0], between[1], between[2] if n_calls == 2 else None, text.rstrip()


def _form(parts: tuple[str, str, str | None, str], joint: str | None, *, as_text: bool) -> CallForm:
    opener, middle, _, closer = parts
    written = opener[opener.index("{") :] + _NAMES[0] + middle + json.dumps(_ARGUMENTS) + closer
    try:
        fields, _ = json.JSONDecoder().raw_decode(written)
    except ValueError:
        fields = {}
    keys = {json.dumps(value): key for key, value in fields.items()} if isinstance(fields, dict) else {}
    name, arguments = keys.get(json.dumps(_NAMES[0])), keys.get(json.dumps(_ARGUMENTS))
    if name is None or arguments is None:
        raise _refused("the model's chat template writes tool calls in a form that this server does not know")
    return CallForm(opener, middle, joint, closer, name, arguments, as_text)


def _refused(what: str) -> RequestError:
    return RequestError(
        what, where="tools", remedy="leave tools out, or describe them in a message", code="no_tools", param="tools"
    )
