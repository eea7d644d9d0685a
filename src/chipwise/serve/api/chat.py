"""POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from pydantic import Field
from starlette.requests import Request
from starlette.routing import Route

from chipwise.errors import RequestError
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service, no_chat_template
from chipwise.serve.http.body import read_as
from chipwise.serve.http.calling import Calling
from chipwise.serve.http.chat_form import ChatForm
from chipwise.serve.http.fields import AnswerFields, read_fields
from chipwise.serve.http.form import Frame
from chipwise.serve.http.messages import Message, check_calls
from chipwise.serve.http.respond import AnswerResponse
from chipwise.serve.http.response_format import ResponseFormat
from chipwise.serve.http.tools import Tool, ToolChoice, check_tools
from chipwise.serve.http.unsupported import refuse_unsupported_in_message
from chipwise.serve.settings import ServeSettings
from chipwise.serve.text.grammar import Grammar

# A grammar may take seconds to compile, and they are compiled one at a time: who waits for that takes no thread, of the
# 40 there are for everybody, from those who only want text.
_THREADS_THAT_COMPILE = 16
# More fit no model's context: each takes some tokens of the template. Reading hundreds of thousands takes seconds.
_MOST_MESSAGES = 1 << 15


class ChatFields(AnswerFields):
    """The body of a chat completion request."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=_MOST_MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None

    @property
    def wanted_tokens(self) -> int | None:
        """The most tokens the answer may have; the newer name goes before the older."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def n_logprobs(self) -> int | None:
        """How many likeliest tokens are reported beside each chosen one; None reports nothing."""
        return (self.top_logprobs or 0) if self.logprobs else None


def chat_route(post: Post[Service], settings: ServeSettings) -> Route:
    """The route."""
    may_compile = CapacityLimiter(_THREADS_THAT_COMPILE)

    async def chat(request: Request) -> AnswerResponse:
        arrived_s = post.current.clock()
        fields = await read_as(_read, request, settings.max_body_bytes, settings.body_timeout_s)
        with post.taken() as service:
            return await answer(service, request, fields, arrived_s)

    async def answer(service: Service, request: Request, fields: ChatFields, arrived_s: float) -> AnswerResponse:
        service.check_model(fields.model)
        asked = service.asked(request, fields, arrived_s)
        n_choices = service.n_choices(fields)
        limiter = may_compile if fields.response_format or fields.tools else None
        prompt, grammar, calling = await to_thread.run_sync(_prepare, service, fields, limiter=limiter)
        head = service.head("chatcmpl")
        frame = Frame(head, "chat.completion", "chat.completion.chunk", fields.include_usage)
        forms = [
            ChatForm(
                frame,
                service.vocabulary,
                index=index,
                logprobs=bool(fields.logprobs),
                reader=None if calling is None else calling.reader(),
            )
            for index in range(n_choices)
        ]
        return service.answer(fields, prompt, frame, forms, asked, grammar)

    return Route("/v1/chat/completions", chat, methods=["POST"])


def _read(body: bytes) -> ChatFields:
    fields = read_fields(ChatFields, body)
    _check(fields)
    return fields


def _check(fields: ChatFields) -> None:
    for i, message in enumerate(fields.messages):
        refuse_unsupported_in_message(message.model_extra or {}, f"messages[{i}]")
    check_calls(fields.messages)
    if fields.top_logprobs is not None and not fields.logprobs:
        raise RequestError("needs logprobs", where="top_logprobs", remedy="set logprobs to true", param="top_logprobs")


def _prepare(service: Service, fields: ChatFields) -> tuple[list[int], Grammar | None, Calling | None]:
    """The prompt, what the answer has to be, and the tools it may call."""
    template = service.model.chat_template
    if template is None:
        raise no_chat_template(service.model.name)
    calling = _calling(service, fields)
    answer = None if fields.response_format is None else fields.response_format.wanted
    if calling is not None:
        grammar = calling.grammar(service.grammars, answer)
    else:
        grammar = None if answer is None else service.grammars.of_schema(*answer)
    # Calls of the past are shown to the model even if it may not call now.
    as_text = any(message.of_tools for message in fields.messages) and service.call_form.arguments_as_text
    messages = [message.for_template(arguments_as_text=as_text) for message in fields.messages]
    tools = None if calling is None else [tool.for_template() for tool in calling.tools]
    text = template.render(messages, tools=tools)
    return service.tokens(text, add_bos=False), grammar, calling


def _calling(service: Service, fields: ChatFields) -> Calling | None:
    tools, choice = fields.tools or [], fields.tool_choice
    check_tools(tools, choice)
    if not tools or choice == "none":
        return None
    return Calling(service.call_form, tools, choice, several=fields.parallel_tool_calls is not False)
