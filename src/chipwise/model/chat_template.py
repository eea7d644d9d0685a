"""ChatTemplate: messages to the text the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chipwise.errors import ModelFormatError, RequestError

# What a template that was not written for such messages runs into.
_RENDER_ERRORS = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


def _raise_exception(message: str) -> None:
    raise RequestError(f"the chat template refuses these messages: {message}", code="invalid_messages")


def _check_message(message: Any, where: str) -> None:
    # A template would write what is missing as nothing, None as "None", and a list as Python shows it.
    if not isinstance(message, Mapping):
        raise _malformed(f"a message is an object, not {type(message).__name__}", where)
    calls_only = message.get("content") is None and message.get("tool_calls")
    for name in ("role",) if calls_only else ("role", "content"):
        if name not in message:
            raise _malformed(f"{name} is missing", where)
        if not isinstance(message[name], str):
            raise _malformed(f"is no text, but {type(message[name]).__name__}", f"{where}.{name}")


def _malformed(what: str, where: str) -> RequestError:
    return RequestError(what, where=where, code="invalid_messages", param=where)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Templates are written for transformers' filter, which keeps non-ASCII text and does not escape HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class _GenerationTag(Extension):
    """``{% generation %}``: marks what the model is trained on; for rendering it is only what it holds."""

    tags = {"generation"}  # noqa: RUF012  Extension declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A Jinja chat template, rendered in a sandbox with the names that Hugging Face templates use.

    Attributes:
        source: Its text.
        where: The file it is from, for messages; None if it is from none.
        takes_tools: Whether it looks at tools.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "", where: str | None = None) -> None:
        self.source = source
        self.where = where
        self.bos_token = bos_token
        self.eos_token = eos_token
        env = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag]
        )
        env.filters["tojson"] = _tojson
        env.globals["raise_exception"] = _raise_exception
        env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = env.from_string(source)
            names = env.parse(source).find_all(nodes.Name)
            self.takes_tools = any(name.name == "tools" and name.ctx == "load" for name in names)
        except TemplateError as e:
            raise ModelFormatError(
                f"the chat template does not parse ({e})",
                where=where,
                remedy="correct the template, or download the model again",
            ) from e

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """The prompt text of a conversation. It holds its own start token: encode it with ``add_bos=False``.

        Args:
            messages: Each with ``role`` and ``content`` as text; one with ``tool_calls`` may have no content.
            add_generation_prompt: Whether the text ends where the model is to answer.
            tools: Descriptions of tools, for templates that show them.

        Raises:
            RequestError: A message is not of that form, or the template refuses the messages or fails on them.
        """
        for i, message in enumerate(messages):
            _check_message(message, f"messages[{i}]")
        try:
            return self._template.render(
                messages=list(messages),
                add_generation_prompt=add_generation_prompt,
                tools=list(tools) if tools else None,
                bos_token=self.bos_token,
                eos_token=self.eos_token,
            )
        except _RENDER_ERRORS as e:
            raise RequestError(
                f"the chat template fails on these messages ({e})",
                remedy="send messages of the form the model was trained on, or correct the template",
                code="invalid_messages",
                param="messages",
            ) from e

    def to_dict(self) -> dict[str, str]:
        """What ``from_dict`` reads back."""
        return {"template": self.source, "bos_token": self.bos_token, "eos_token": self.eos_token}

    @classmethod
    def from_dict(cls, fields: Mapping[str, str], *, where: str | None = None) -> ChatTemplate:
        """The template that ``to_dict`` wrote, into the file ``where`` if it is in one."""
        return cls(fields["template"], bos_token=fields["bos_token"], eos_token=fields["eos_token"], where=where)
