"""How requests end: what they are told, and how they are counted."""

from __future__ import annotations

from chipwise.errors import ChipwiseError, DeadlineError, EngineError
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.observe.metrics import Outcome
from chipwise.serve.observe.trace import Part
from chipwise.serve.request.events import Event, Failure, Finish

End = Finish | Failure | None
"""An answer is complete, or failed; None: the client has gone."""


def too_late(ticket: Ticket, now_s: float) -> DeadlineError:
    """A request's deadline has passed."""
    waited_s, said = now_s - ticket.sequence.request.arrived_s, ticket.answer.n_tokens
    return DeadlineError(
        f"the deadline passed: {waited_s:.3f} s after it came the request has {said} tokens of its answer",
        remedy="allow more time, ask for fewer tokens, or give it a higher priority",
    )


def not_again(ticket: Ticket, error: ChipwiseError) -> EngineError:
    """The engine was lost in a request's steps so often that it is not tried again."""
    return EngineError(
        f"the request was given up after the engine was lost in {ticket.losses} of its steps, the last time: {error}",
        remedy="do not send it again as it is; the server's log has more",
    )


def outcome(end: End) -> Outcome:
    """How it is counted."""
    if end is None:
        return "cancelled"
    if isinstance(end, Failure):
        return "expired" if isinstance(end.error, DeadlineError) else "error"
    return end.reason


def trace_end(ticket: Ticket, end: End, now_s: float) -> None:
    """Tell a request's trace that it is over, if there is one."""
    sequence = ticket.sequence
    if (trace := sequence.request.trace) is None:
        return
    if isinstance(end, Failure):
        trace.failed(end.error)
    elif end is None:
        trace.error = trace.error or "cancelled"
    trace.ended(
        Part(
            choice=sequence.request.sampling.choice,
            outcome=outcome(end),
            started_s=sequence.started_s,
            first_token_s=ticket.first_token_s,
            ended_s=now_s,
            prompt_tokens=len(sequence.request.prompt),
            output_tokens=ticket.answer.n_tokens,
            cached_tokens=sequence.cached,
        )
    )


def nobody(event: Event) -> None:
    """The outbox of a request whose client was told the end already."""
