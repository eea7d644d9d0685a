"""OpenAI-style chat logs as cases: conversations with their answers, fine-tuning files, batch and proxy logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chipwise.verify.keywords import entities
from chipwise.verify.scoring.tool_call import ToolCall, call_of, has_broken_arguments

Line = dict[str, Any]


def is_chat(fields: Mapping[str, Any]) -> bool:
    """Whether a line is of a chat log."""
    return _messages(fields) is not None


def chat_case(fields: Mapping[str, Any]) -> Line | None:
    """The case of a line: the conversation up to its last answer, which is what is expected.

    An answer that calls tools makes a case of logic: the calls are compared by meaning. Other answers are judged by
    their entities; one without any leaves its case unscored. None for a line without a user's message or an answer,
    with pictures or other parts that are no text, or with calls that cannot be read.
    """
    messages = _messages(fields)
    if messages is None:
        return None
    answer = _answer(fields)
    if answer is None and messages and messages[-1].get("role") == "assistant":
        answer = messages.pop()
    if answer is None or not messages or messages[-1].get("role") not in ("user", "tool"):
        return None
    if any(map(_has_more_than_text, messages)):
        # Without its picture the question would be another.
        return None
    line: Line = {"messages": [_plain(message) for message in messages]}
    if tools := _tools(fields):
        line["tools"] = tools
    text, calls = _text(answer.get("content")), _calls(answer)
    if calls is None:
        return None
    if calls:
        made = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
        return {**line, "dimension": "logic", "calls": made, "expected": json.dumps(made, ensure_ascii=False)}
    if not text.strip():
        return None
    return {**line, "expected": text, "keywords": list(entities(text))}


def _has_more_than_text(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if isinstance(content, list):
        return any(not isinstance(part, Mapping) or part.get("type") != "text" for part in content)
    return content is not None and not isinstance(content, str)


def _messages(fields: Mapping[str, Any]) -> list[Line] | None:
    for holder in (fields, fields.get("request"), fields.get("body"), fields.get("input")):
        if isinstance(holder, Mapping):
            inner = holder.get("body") if isinstance(holder.get("body"), Mapping) else holder
            messages = inner.get("messages") if isinstance(inner, Mapping) else None
            if isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages):
                return list(messages)
    return None


def _tools(fields: Mapping[str, Any]) -> list[Any]:
    """The tools that the request offered."""
    for holder in (fields, fields.get("request"), fields.get("body"), fields.get("input")):
        if isinstance(holder, Mapping):
            inner = holder.get("body") if isinstance(holder.get("body"), Mapping) else holder
            tools = inner.get("tools") if isinstance(inner, Mapping) else None
            if isinstance(tools, list) and tools:
                return list(tools)
    return []


def _answer(fields: Mapping[str, Any]) -> Line | None:
    for holder in (fields, fields.get("response"), fields.get("output")):
        if isinstance(holder, Mapping):
            inner = holder.get("body") if isinstance(holder.get("body"), Mapping) else holder
            choices = inner.get("choices") if isinstance(inner, Mapping) else None
            if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
                message = choices[0].get("message")
                if isinstance(message, dict):
                    return message
    return None


def _calls(answer: Mapping[str, Any]) -> list[ToolCall] | None:
    """The calls of an answer; None if one of them names no tool or has arguments that are no JSON object.

    The older field for one call counts, too.
    """
    called = answer.get("tool_calls") or answer.get("function_call") or []
    listed = called if isinstance(called, list) else [called]
    made = [call_of(value) for value in listed]
    read = [call for call in made if call is not None]
    return read if len(read) == len(listed) and not any(map(has_broken_arguments, listed)) else None


def _plain(message: Mapping[str, Any]) -> Line:
    """A message with its text in one piece and its other fields as they are."""
    kept = {key: value for key, value in message.items() if value is not None}
    if not (message.get("content") is None and "tool_calls" in kept):
        kept["content"] = _text(message.get("content"))
    return kept


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: Sequence[Any] = content if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
    return "".join(str(part.get("text", "")) for part in texts)
