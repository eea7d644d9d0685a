"""Urgency: how a request says how urgent it is, in its body or in headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from starlette.datastructures import Headers

from chipwise.errors import RequestError
from chipwise.serve.request.priority import Priority

_NAMES = {priority.label: priority for priority in Priority}
_MAX_DEADLINE_MS = 24 * 3600 * 1000


def _priority(value: Any) -> Any:
    """A priority by its name, or by its number as vLLM has it: the lower, the more urgent."""
    if isinstance(value, str) and value.lower() in _NAMES:
        return _NAMES[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool) and value in Priority.__members__.values():
        return Priority(value)
    raise PydanticCustomError("priority", "should be one of {names}, or 0 to 3", {"names": ", ".join(_NAMES)})


PriorityField = Annotated[Priority, BeforeValidator(_priority)]
DeadlineField = Annotated[int, Field(ge=1, le=_MAX_DEADLINE_MS)]

_HEADER_PRIORITY: TypeAdapter[Priority] = TypeAdapter(PriorityField)
_HEADER_DEADLINE: TypeAdapter[int] = TypeAdapter(DeadlineField)


@dataclass(frozen=True)
class Urgency:
    """How urgent a request says it is.

    Attributes:
        priority: Its priority; None if it names none.
        deadline_ms: Milliseconds from its arrival on in which its answer is of use; None for no end.
    """

    priority: Priority | None = None
    deadline_ms: int | None = None


def from_headers(headers: Headers, priority: Priority | None, deadline_ms: int | None) -> Urgency:
    """What the body says, and for what it does not say the headers X-Priority and X-Deadline-Ms.

    Raises:
        RequestError: A header has another value.
    """
    if priority is None and (text := headers.get("x-priority")) is not None:
        value: Any = int(text) if text.isdecimal() and len(text) < 3 else text
        priority = _read(_HEADER_PRIORITY, value, "X-Priority")
    if deadline_ms is None and (text := headers.get("x-deadline-ms")) is not None:
        number = int(text) if text.isdecimal() and len(text) < 12 else text
        deadline_ms = _read(_HEADER_DEADLINE, number, "X-Deadline-Ms")
    return Urgency(priority, deadline_ms)


def _read(adapter: TypeAdapter[Any], value: Any, name: str) -> Any:
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as e:
        message = e.errors(include_url=False, include_input=False)[0]["msg"]
        text = message[:1].lower() + message[1:]
        raise RequestError(text, where=f"header {name}", code="invalid_value", param=name) from e
