"""ResponseFormat: the JSON that a chat's answer has to be."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from chipwise.serve.text.grammar import JSON_OBJECT

_FORM = ConfigDict(strict=True, extra="ignore", frozen=True)


class NamedSchema(BaseModel):
    """A JSON Schema under a name. It is enforced whether ``strict`` is set or not."""

    model_config = _FORM

    name: Annotated[str, Field(max_length=64)] | None = None
    description: str | None = None
    strict: bool | None = None
    body: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(BaseModel):
    """OpenAI's ``response_format``."""

    model_config = _FORM

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None
    # Beside json_object, as llama.cpp and others have it.
    body: Annotated[dict[str, Any] | None, Field(alias="schema")] = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise PydanticCustomError("json_schema", "of type 'json_schema' needs the field json_schema")
        return self

    @property
    def wanted(self) -> tuple[dict[str, Any], str] | None:
        """The schema and the field it stands in; None if any text will do."""
        if self.type == "json_schema" and self.json_schema is not None:
            return self.json_schema.body, "response_format.json_schema.schema"
        if self.type == "text":
            return None
        return (dict(JSON_OBJECT), "response_format") if self.body is None else (self.body, "response_format.schema")
