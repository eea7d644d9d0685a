"""Tools: the functions a chat may call, and which of them it has to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from chipwise.errors import RequestError

_FORM = ConfigDict(strict=True, extra="ignore", frozen=True)
# Each costs tokens of the prompt, and a grammar where it is enforced.
_MOST_TOOLS = 512
_NOTHING = {"type": "object", "properties": {}}


class Function(BaseModel):
    """A function: what it is for, and the schema of its arguments."""

    model_config = _FORM

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def schema_of_arguments(self) -> dict[str, Any]:
        """The schema of its arguments: always an object's."""
        if not self.parameters:
            return {**_NOTHING, "additionalProperties": False}
        return {"type": "object", **self.parameters}


class Tool(BaseModel):
    """A tool; there are functions only."""

    model_config = _FORM

    type: Literal["function"]
    function: Function

    def for_template(self) -> dict[str, Any]:
        """The tool as Hugging Face's templates know it."""
        function = self.function
        fields = {"name": function.name, "description": function.description or ""}
        return {"type": "function", "function": {**fields, "parameters": function.parameters or _NOTHING}}


def _choice(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in ("none", "auto", "required")):
        return value
    function = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return Named(function["name"])
    raise PydanticCustomError(
        "tool_choice", "should be 'none', 'auto', 'required' or {form}", {"form": '{"type": "function", ...}'}
    )


@dataclass(frozen=True)
class Named:
    """The tool that has to be called."""

    name: str


ToolChoice = Annotated[Any, BeforeValidator(_choice)]
"""``None``, ``"none"``, ``"auto"``, ``"required"`` or a ``Named``."""


def check_tools(tools: Sequence[Tool], choice: Any) -> None:
    """Check that tools differ, and that the one to be called is among them.

    Raises:
        RequestError: Names the field.
    """
    if len(tools) > _MOST_TOOLS:
        raise RequestError(
            f"holds {len(tools)} tools, at most {_MOST_TOOLS} are taken",
            where="tools",
            remedy="send those that the question may need",
            code="invalid_value",
            param="tools",
        )
    names = set[str]()
    for i, name in enumerate(tool.function.name for tool in tools):
        if name in names:
            where = f"tools[{i}].function.name"
            raise RequestError(f"there are two tools named {name!r}", where=where, code="invalid_value", param=where)
        names.add(name)
        kind = tools[i].function.schema_of_arguments["type"]
        if kind != "object":
            where = f"tools[{i}].function.parameters"
            raise RequestError(f"is of type {kind!r}, arguments are an object", where=where, param=where)
    if choice == "required" and not names:
        raise _bad_choice("there are no tools to call")
    if isinstance(choice, Named) and choice.name not in names:
        raise _bad_choice(f"there is no tool named {choice.name!r}")


def _bad_choice(what: str) -> RequestError:
    return RequestError(what, where="tool_choice", code="invalid_value", param="tool_choice")
