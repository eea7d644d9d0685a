"""Message: one message of a chat, reduced to the text that a template takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from chipwise.errors import RequestError


def _text(value: Any, info: ValidationInfo) -> Any:
    if value is None and info.data.get("role") == "assistant":
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise PydanticCustomError("content", "should be a string or a list of text parts")
    texts = []
    for i, part in enumerate(value):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            shown = repr(kind) if isinstance(kind, str) else "unknown"
            problem = "has no text" if kind == "text" else f"is of type {shown}, only 'text' is taken"
            raise PydanticCustomError("content", "part {i} {problem}", {"i": i, "problem": problem})
        texts.append(part["text"])
    # As llama.cpp and vLLM do: templates take one string, and parts are paragraphs of it.
    return "\n".join(texts)


def _arguments(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("arguments", "should be a JSON object as a string")
    try:
        found = json.loads(value or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PydanticCustomError("arguments", "should be a JSON object as a string")
    return _without_half_pairs(found)


def _without_half_pairs(found: dict[str, Any]) -> dict[str, Any]:
    """The same, where half a surrogate pair, which only an escape can write, is U+FFFD: no tokenizer takes it."""
    text = json.dumps(found, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        replaced: dict[str, Any] = json.loads(whole)
        return replaced
    return found


class PastFunction(BaseModel):
    """What was called, and with what: an object, which clients send as a string."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    arguments: Annotated[dict[str, Any], BeforeValidator(_arguments)]


class PastCall(BaseModel):
    """A call of a tool that the model made."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    id: str
    type: Literal["function"] = "function"
    function: PastFunction

    def for_template(self, *, as_text: bool) -> dict[str, Any]:
        """The call as templates know it, its arguments as an object or as JSON."""
        arguments: Any = self.function.arguments
        if as_text:
            arguments = json.dumps(arguments, ensure_ascii=False)
        return {"id": self.id, "type": "function", "function": {"name": self.function.name, "arguments": arguments}}


class Message(BaseModel):
    """One message. Other fields are kept aside in ``model_extra``."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(_text)]
    name: str | None = None
    tool_calls: list[PastCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _calls_say_enough(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("role") == "assistant" and fields.get("tool_calls"):
            return {"content": None, **fields}
        return fields

    @property
    def of_tools(self) -> bool:
        """Whether only a template that knows tools can show it."""
        return self.role == "tool" or bool(self.tool_calls)

    def for_template(self, *, arguments_as_text: bool = False) -> dict[str, Any]:
        """The message as Hugging Face's templates know it. ``developer`` is OpenAI's newer word for ``system``."""
        fields: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": self.content}
        if self.name is not None:
            fields["name"] = self.name
        if self.tool_calls:
            fields["tool_calls"] = [call.for_template(as_text=arguments_as_text) for call in self.tool_calls]
        if self.tool_call_id is not None:
            fields["tool_call_id"] = self.tool_call_id
        return fields


def check_calls(messages: Sequence[Message]) -> None:
    """Check that only the assistant calls tools, and each result belongs to a call before it.

    Raises:
        RequestError: Names the message.
    """
    known: set[str] = set()
    for i, message in enumerate(messages):
        if message.tool_calls and message.role != "assistant":
            raise _misplaced("only an assistant's message has them", f"messages[{i}].tool_calls")
        known |= {call.id for call in message.tool_calls or ()}
        if message.role == "tool" and message.tool_call_id not in known:
            raise _misplaced("names no call of a message before it", f"messages[{i}].tool_call_id")


def _misplaced(what: str, where: str) -> RequestError:
    return RequestError(what, where=where, code="invalid_messages", param=where)
