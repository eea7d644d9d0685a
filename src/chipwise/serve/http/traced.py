"""Traced: begins a trace with each request to a model, and ends it if its answer came at once."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chipwise.serve.http.fields import AnswerFields
from chipwise.serve.observe.trace import Attribute, Trace
from chipwise.serve.observe.tracing import Tracing
from chipwise.serve.request.request import Request as Answered

# By path. The conventions have no name for a plain graph's.
_OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
    "/v1/infer": "infer",
}
_STATE = "trace"


class Traced:
    """Middleware that keeps a trace beside each POST to a model's route."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and look at the status."""
        operation = _OPERATIONS.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if operation is None:
            await self._app(scope, receive, send)
            return
        trace = self._tracing.begin(operation, Headers(scope=scope))
        scope.setdefault("state", {})[_STATE] = trace
        status = 0

        async def look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        error: str | None = None
        try:
            await self._app(scope, receive, look)
        except BaseException as e:
            error = type(e).__name__
            trace.fault = trace.fault or f"{error}: {e}"
            raise
        finally:
            trace.answered(error or (str(status) if status >= 400 else None))


def trace_queued(request: Answered, fields: AnswerFields, n_choices: int, model: str) -> None:
    """Tell a request's trace, if there is one, what is given to the scheduler. What was said is no part of it.

    Args:
        request: What is given.
        fields: The body it comes from.
        n_choices: Answers that it wants.
        model: The model that answers.
    """
    if (trace := request.trace) is None:
        return
    sampling = request.sampling
    known: dict[str, Attribute | None] = {
        "gen_ai.response.id": request.id,
        "gen_ai.response.model": model,
        "gen_ai.request.max_tokens": fields.wanted_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.choice.count": None if n_choices == 1 else n_choices,
        "gen_ai.request.stream": fields.stream or None,
        "chipwise.priority": request.priority.label,
    }
    trace.model = model if fields.model is None else fields.model
    trace.attributes.update({name: value for name, value in known.items() if value is not None})
    trace.queued(n_choices)


def trace_of(request: Request) -> Trace | None:
    """The trace of a request; None if nobody traces."""
    trace = request.scope.get("state", {}).get(_STATE)
    return trace if isinstance(trace, Trace) else None
