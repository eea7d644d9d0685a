"""POST /v1/completions."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from chipwise.errors import RequestError
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service
from chipwise.serve.http.body import read_as
from chipwise.serve.http.completion_form import CompletionForm
from chipwise.serve.http.fields import AnswerFields, read_fields
from chipwise.serve.http.form import Frame
from chipwise.serve.http.respond import AnswerResponse
from chipwise.serve.settings import ServeSettings

_DEFAULT_MAX_TOKENS = 16  # OpenAI's


def _single_prompt(value: Any) -> Any:
    """A prompt, or the only one of a list: text or token ids."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        if all(type(token) is int for token in value):
            return value
        if len(value) == 1 and isinstance(value[0], (str, list)):
            return _single_prompt(value[0])
        if all(isinstance(prompt, (str, list)) for prompt in value):
            raise PydanticCustomError("prompt", f"holds {len(value)} prompts, one is taken a request")
    raise PydanticCustomError("prompt", "should be a string, a list of token ids, or a list of one of these")


class CompletionFields(AnswerFields):
    """The body of a completion request."""

    prompt: Annotated[Any, BeforeValidator(_single_prompt)]
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None

    @property
    def wanted_tokens(self) -> int | None:
        """The most tokens the answer may have."""
        return _DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def n_logprobs(self) -> int | None:
        """How many likeliest tokens are reported beside each chosen one; None reports nothing."""
        return self.logprobs


def completions_route(post: Post[Service], settings: ServeSettings) -> Route:
    """The route."""

    async def completions(request: Request) -> AnswerResponse:
        arrived_s = post.current.clock()
        read = partial(read_fields, CompletionFields)
        fields = await read_as(read, request, settings.max_body_bytes, settings.body_timeout_s)
        with post.taken() as service:
            return await answer(service, request, fields, arrived_s)

    async def answer(service: Service, request: Request, fields: CompletionFields, arrived_s: float) -> AnswerResponse:
        service.check_model(fields.model)
        asked = service.asked(request, fields, arrived_s)
        n_choices = service.n_choices(fields)
        prompt = await run_in_threadpool(_prompt, service, fields.prompt)
        frame = Frame(service.head("cmpl"), "text_completion", "text_completion", fields.include_usage)
        forms = [
            CompletionForm(frame, service.vocabulary, index=index, logprobs=fields.logprobs is not None)
            for index in range(n_choices)
        ]
        return service.answer(fields, prompt, frame, forms, asked)

    return Route("/v1/completions", completions, methods=["POST"])


def _prompt(service: Service, prompt: str | list[int]) -> list[int]:
    if isinstance(prompt, str):
        return service.tokens(prompt)
    vocab_size = service.model.session.vocab_size
    for i, token in enumerate(prompt):
        if not 0 <= token < vocab_size:
            raise RequestError(
                f"the token id {token} is none of the model's, which go from 0 to {vocab_size - 1}",
                where=f"prompt[{i}]",
                param="prompt",
            )
    return prompt
