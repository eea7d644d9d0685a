"""Service: what the routes share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from chipwise.errors import OverloadedError, RequestError, UnavailableError
from chipwise.serve.http.errors import MODEL_NOT_FOUND
from chipwise.serve.http.fields import AnswerFields
from chipwise.serve.http.form import Form
from chipwise.serve.http.respond import AnswerResponse
from chipwise.serve.loop import Loop
from chipwise.serve.mailbox import Mailbox
from chipwise.serve.metrics import Metrics
from chipwise.serve.request import Request
from chipwise.serve.served_model import ServedModel
from chipwise.serve.settings import ServeSettings
from chipwise.serve.vocabulary import Vocabulary


@dataclass(frozen=True)
class Service:
    """A model being served.

    Attributes:
        model: The model.
        vocabulary: Its tokens' bytes.
        loop: What runs it.
        metrics: What is counted.
        clock: The clock the loop uses, in seconds.
        settings: The server's settings.
    """

    model: ServedModel
    vocabulary: Vocabulary
    loop: Loop
    metrics: Metrics
    clock: Callable[[], float]
    settings: ServeSettings

    def check_model(self, name: str | None) -> None:
        """Check that a request means this model; one that names none does.

        Raises:
            RequestError: It names another (404).
        """
        if name is not None and name != self.model.name:
            raise RequestError(
                f"the model {name!r} does not exist here",
                remedy=f"ask for {self.model.name!r}",
                code=MODEL_NOT_FOUND,
                param="model",
            )

    def head(self, prefix: str) -> dict[str, Any]:
        """The fields that begin every object of one answer."""
        return {
            "id": f"{prefix}-{uuid4().hex}",
            "created": int(time.time()),
            "model": self.model.name,
            "system_fingerprint": self.model.fingerprint,
        }

    def answer(
        self, fields: AnswerFields, prompt: list[int], form: Form, answer_id: str, arrived_s: float
    ) -> AnswerResponse:
        """Hand a request to the loop.

        Args:
            fields: The request's body.
            prompt: Its prompt's token ids.
            form: How the answer is written.
            answer_id: The answer's id.
            arrived_s: When the request came, on ``clock``.

        Raises:
            RequestError: The prompt is empty or does not fit the context.
            OverloadedError: As many requests wait as may.
            UnavailableError: The server takes no requests any more.
        """
        room, wanted = self._room(len(prompt)), fields.wanted_tokens
        request = Request(
            id=answer_id,
            prompt=np.array(prompt, dtype=np.int64),
            max_tokens=room if wanted is None else min(wanted, room),
            sampling=fields.sampling,
            stop=fields.stop,
            arrived_s=arrived_s,
        )
        mailbox = Mailbox(at_once=not fields.stream)
        try:
            ticket = self.loop.submit(request, mailbox.put)
        except (OverloadedError, UnavailableError):
            self.metrics.over("rejected")
            raise
        return AnswerResponse(
            mailbox, form, answer_id, stream=bool(fields.stream), give_up=lambda: self.loop.cancel(ticket)
        )

    def _room(self, prompt_tokens: int) -> int:
        context = self.model.session.max_context
        if prompt_tokens == 0:
            raise RequestError("the prompt has no tokens", remedy="send some text", code="empty_prompt")
        if prompt_tokens >= context:
            raise RequestError(
                f"the prompt has {prompt_tokens} tokens, the context holds {context} with the answer",
                remedy="shorten it, or serve the model with a longer context",
                code="context_length_exceeded",
            )
        return context - prompt_tokens
