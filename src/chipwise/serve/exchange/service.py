"""Service: what the routes share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
from starlette.requests import Request as HttpRequest

from chipwise.errors import OverloadedError, RequestError, UnavailableError
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.http.errors import ABOVE_CEILING, wrong_model
from chipwise.serve.http.fields import AnswerFields
from chipwise.serve.http.form import Form, Frame
from chipwise.serve.http.guard import client_of
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.respond import AnswerResponse
from chipwise.serve.http.traced import trace_of, trace_queued
from chipwise.serve.http.urgency import from_headers
from chipwise.serve.kv.kv_contents import KvContents
from chipwise.serve.loop.lanes import Lanes
from chipwise.serve.loop.mailbox import Mailbox, Postman
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.models.allocator import give_back_what_is_free
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.trace import Trace
from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.request.ring import Ring
from chipwise.serve.settings import ServeSettings
from chipwise.serve.text.call_form import CallForm, call_form
from chipwise.serve.text.grammar import Grammar, Grammars
from chipwise.serve.text.vocabulary import Vocabulary

# As many answers to one prompt as anybody compares.
_MAX_CHOICES = 8
# Characters of a text whose reading takes more memory than the heaps have free anyway.
_LONG_CHARS = 8192


@dataclass(frozen=True)
class Asked:
    """Who asks, and how urgently.

    Attributes:
        client: The client's name.
        priority: The priority.
        deadline_s: When the answer is of no use any more, on the service's clock; None for never.
        arrived_s: When the request came, on the same clock.
        trace: What is kept of the request; None if nobody traces.
    """

    client: str
    priority: Priority
    deadline_s: float | None
    arrived_s: float
    trace: Trace | None = None


@dataclass(frozen=True)
class Service:
    """A model being served.

    Attributes:
        model: The model.
        vocabulary: Its tokens' bytes.
        grammars: Compiles what answers have to be.
        loop: What runs it.
        metrics: What is counted.
        clock: The clock the loop uses, in seconds.
        settings: The server's settings.
        keys: Who may ask; None lets everybody.
        hardware: What it runs on; None if nobody looks.
        contents: What the session's slots hold, to be kept at the end.
        names: What requests may call it, the one for lists first: those before it go on being answered.
        postman: Brings events from the loop's threads.
    """

    model: ServedModel
    vocabulary: Vocabulary
    grammars: Grammars
    loop: Lanes
    metrics: Metrics
    clock: Callable[[], float]
    settings: ServeSettings
    keys: Keys | None = None
    hardware: Hardware | None = None
    contents: KvContents | None = None
    names: tuple[str, ...] = ()
    postman: Postman = field(default_factory=Postman)

    def __str__(self) -> str:
        """Its name and what it costs in quality, for the log."""
        cost = self.model.quality_cost
        return f"{self.name} ({'quality not measured' if cost is None else cost})"

    @property
    def name(self) -> str:
        """What its answers call it."""
        return self.model.name

    @property
    def fingerprint(self) -> str | None:
        """Changes whenever its answers might; None if unknown."""
        return self.model.fingerprint

    def close(self) -> None:
        """Give all memory of its model back. Once the loop has ended."""
        self.model.close()

    @cached_property
    def call_form(self) -> CallForm:
        """How the model writes a call of a tool.

        Raises:
            RequestError: It knows none, or in a form that is not known here.
        """
        template, tokenizer = self.model.chat_template, self.model.tokenizer
        if template is None:
            raise no_chat_template(self.model.name)
        ends = [tokenizer.token_text(i) for i in tokenizer.special.eos_ids]
        form = call_form(template, [*ends, template.eos_token])
        marks = tokenizer.encode(form.opener + form.middle + form.closer, add_bos=False)
        if not all(self.vocabulary.token_bytes(i) for i in marks):
            raise RequestError(
                "the model marks tool calls with special tokens, which are no part of an answer's text",
                where="tools",
                remedy="leave tools out, or describe them in a message",
                code="no_tools",
                param="tools",
            )
        return form

    def check_model(self, name: str | None) -> None:
        """Check that a request means this model; one that names none does.

        Raises:
            RequestError: It names another (404).
        """
        if name is not None and name not in self.names:
            raise wrong_model(name, self.names[0])

    def head(self, prefix: str) -> dict[str, Any]:
        """The fields that begin every object of one answer."""
        return {
            "id": f"{prefix}-{uuid4().hex}",
            "created": int(time.time()),
            "model": self.model.name,
            "system_fingerprint": self.model.fingerprint,
        }

    def asked(self, request: HttpRequest, fields: AnswerFields, arrived_s: float) -> Asked:
        """Who asks, and how urgently.

        Args:
            request: The request.
            fields: Its body.
            arrived_s: When it came, on ``clock``.

        Raises:
            RequestError: A header is wrong, or the client may not ask for this priority (403).
        """
        client, urgency = client_of(request), from_headers(request.headers, fields.priority, fields.deadline_ms)
        priority = client.usual if urgency.priority is None else urgency.priority
        if priority < client.ceiling:
            raise RequestError(
                f"the client {client.name!r} may ask for {client.ceiling.label} at most, not {priority.label}",
                where="priority",
                remedy="lower it, or raise the ceiling in the server's file of keys",
                code=ABOVE_CEILING,
                param="priority",
            )
        ends_s = [
            arrived_s + allowed_s
            for allowed_s in (
                None if urgency.deadline_ms is None else urgency.deadline_ms / 1000,
                self.settings.request_timeout_s,
            )
            if allowed_s is not None
        ]
        return Asked(client.name, priority, min(ends_s, default=None), arrived_s, trace_of(request))

    def tokens(self, text: str, *, add_bos: bool | None = None) -> list[int]:
        """A prompt's token ids.

        Args:
            text: The prompt.
            add_bos: Whether to put the start token in front; None takes the model's habit.

        Raises:
            RequestError: It is far longer than the context: that is found without all of its tokens, whose computation
                would take the machine from others for long.
        """
        tokenizer, context = self.model.tokenizer, self.model.session.max_context
        try:
            if self.settings.sinks is None and tokenizer.exceeds(text, context):
                raise _too_long(f"the prompt of {len(text)} characters has more than {2 * context} tokens", context)
            return tokenizer.encode(text, add_bos=add_bos)
        finally:
            # Reading it took some hundred bytes a token in small blocks, which the heaps would keep for the next one.
            if len(text) > _LONG_CHARS:
                give_back_what_is_free()

    def n_choices(self, fields: AnswerFields) -> int:
        """How many answers a request wants.

        Raises:
            RequestError: More than this server makes of one prompt.
        """
        settings, n = self.settings, 1 if fields.n is None else fields.n
        places = max(1, self.model.session.n_slots - settings.parking_slots - settings.reserved_slots)
        most = min(_MAX_CHOICES, places)
        if n > most:
            why = "a request takes no more" if most == _MAX_CHOICES else f"this server runs {places} at once"
            raise RequestError(
                f"{n} choices are asked for, at most {most} are made: {why}",
                where="n",
                remedy="ask for fewer"
                if most == _MAX_CHOICES
                else "ask for fewer, or serve the model with more --slots",
                code="invalid_value",
                param="n",
            )
        return n

    def answer(
        self,
        fields: AnswerFields,
        prompt: list[int],
        frame: Frame,
        forms: Sequence[Form],
        asked: Asked,
        grammar: Grammar | None = None,
    ) -> AnswerResponse:
        """Hand a request to the loop, as one a choice: the first feeds the prompt, the others take its KV over.

        Args:
            fields: The request's body.
            prompt: Its prompt's token ids.
            frame: What stands around the choices.
            forms: How each choice is written.
            asked: Who asks, and how urgently.
            grammar: What the answer has to be; None for anything.

        Raises:
            RequestError: The prompt is empty or does not fit the context.
            OverloadedError: As many requests wait as may.
            UnavailableError: The server takes no requests any more.
        """
        sinks, wanted = self.settings.sinks, fields.wanted_tokens
        room = self._room(len(prompt), sinks)
        request = Request(
            id=frame.answer_id,
            prompt=np.array(prompt, dtype=np.int64),
            max_tokens=room if wanted is None else wanted if sinks is not None else min(wanted, room),
            sampling=fields.sampling,
            stop=fields.stop,
            arrived_s=asked.arrived_s,
            priority=asked.priority,
            deadline_s=asked.deadline_s,
            client=asked.client,
            grammar=grammar,
            ring=None if sinks is None else Ring(self.model.session.max_context, sinks),
            trace=asked.trace,
        )
        trace_queued(request, fields, len(forms), self.model.name)
        mailbox = Mailbox(self.postman, at_once=not fields.stream)
        tickets: list[Ticket] = []

        def give_up() -> None:
            for ticket in tickets:
                self.loop.cancel(ticket)

        try:
            for choice in range(len(forms)):
                one = replace(request, sampling=replace(request.sampling, choice=choice))
                tickets.append(self.loop.submit(one, mailbox.outbox(choice)))
        except (OverloadedError, UnavailableError) as e:
            # There was room for some of the choices only.
            give_up()
            if asked.trace is not None:
                asked.trace.refused(len(forms) - len(tickets), e)
            raise
        return AnswerResponse(mailbox, frame, forms, stream=bool(fields.stream), give_up=give_up, trace=asked.trace)

    def _room(self, prompt_tokens: int, sinks: int | None) -> int:
        context = self.model.session.max_context
        if prompt_tokens == 0:
            raise RequestError("the prompt has no tokens", remedy="send some text", code="empty_prompt")
        if sinks is not None:
            return max(context - prompt_tokens, context // 2)
        if prompt_tokens >= context:
            raise _too_long(f"the prompt has {prompt_tokens} tokens", context)
        return context - prompt_tokens


def _too_long(what: str, context: int) -> RequestError:
    return RequestError(
        f"{what}, the context holds {context} with the answer",
        remedy="shorten it, or serve the model with a longer --context, or with --sinks",
        code="context_length_exceeded",
    )


def no_chat_template(name: str) -> RequestError:
    """What is said to a chat with a model that only completes text."""
    return RequestError(
        f"the model {name!r} has no chat template", remedy="use /v1/completions", code="no_chat_template"
    )
