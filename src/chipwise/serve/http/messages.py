"""Message: one message of a chat, reduced to the text that a template takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError


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


class Message(BaseModel):
    """One message. Other fields are kept aside in ``model_extra``."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_text)]
    name: str | None = None

    def for_template(self) -> dict[str, str]:
        """The message as Hugging Face's templates know it. ``developer`` is OpenAI's newer word for ``system``."""
        fields = {"role": "system" if self.role == "developer" else self.role, "content": self.content}
        return fields if self.name is None else {**fields, "name": self.name}
