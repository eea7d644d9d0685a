"""Chooser: chooses a request's next tokens from logits, and sends their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from chipwise.errors import EngineError
from chipwise.serve.loop.teller import Teller
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.request.events import Failure, Finish
from chipwise.serve.schedule.scheduler import Scheduler
from chipwise.serve.speculation.draft import Draft
from chipwise.serve.text.sampling import Sampler

Rows = npt.NDArray[np.float32]


class Chooser:
    """What follows a step, one request at a time. It belongs to the thread that owns the session.

    Args:
        vocab_size: Length of a row of logits.
        scheduler: Is told what was chosen.
        metrics: Count the tokens.
        teller: Is told the text.
        clock: The time in seconds.
    """

    def __init__(
        self, vocab_size: int, scheduler: Scheduler, metrics: Metrics, teller: Teller, clock: Callable[[], float]
    ) -> None:
        self._sampler = Sampler(vocab_size)
        self._scheduler = scheduler
        self._metrics = metrics
        self._teller = teller
        self._clock = clock

    def choose(self, ticket: Ticket, logits: Rows, best: Sequence[int], draft: Draft) -> Finish | Failure | None:
        """Choose a request's next token, and the one after as long as its draft guessed right.

        Each token is chosen as if nothing had been guessed: from the model's logits behind all tokens before, under the
        request's grammar, with one draw of its own generator. A guess only decides whether the next logits are there
        already. So what is said has the same distribution with and without drafts, and with a seed the same tokens.

        Args:
            ticket: The request.
            logits: float32 ``[1 + len(draft), vocab]``: behind its last token and behind each guessed one. They were
                checked.
            best: Their likeliest tokens.
            draft: What was guessed, mostly nothing.

        Returns:
            How the request ends, if it does.
        """
        right = 0
        end = self._choose_one(ticket, logits[0], best[0])
        while end is None and right < len(draft) and self._scheduler.confirm(ticket.sequence, draft.tokens[right]):
            right += 1
            end = self._choose_one(ticket, logits[right], best[right])
        if draft:
            # Where the answer ended nothing was compared.
            self._scheduler.checked(ticket.sequence, draft if end is None else draft.first(right), right)
        return end

    def _choose_one(self, ticket: Ticket, logits: Rows, best: int) -> Finish | Failure | None:
        """Choose a token and send its text; how the request ends, if it does."""
        request, answer = ticket.sequence.request, ticket.answer
        n_top, constraint = request.sampling.logprobs, ticket.constraint
        try:
            allowed = None if constraint is None else constraint.allowed()
            token = self._sampler.sample(logits, request.sampling, ticket.chance, allowed, best=best)
            if constraint is not None:
                constraint.advance(token)
        except EngineError as e:
            return Failure(e)
        logprobs = None if n_top is None else self._sampler.logprobs(logits, token, n_top)
        self._count_token(ticket)
        piece = answer.push(token, logprobs, complete=constraint is not None and constraint.complete)
        if piece is not None:
            self._teller.tell(ticket, piece)
        if answer.finish_reason is not None:
            return Finish(answer.finish_reason, len(request.prompt), answer.n_tokens, ticket.sequence.cached)
        self._scheduler.feed(ticket.sequence, token)
        return None

    def _count_token(self, ticket: Ticket) -> None:
        now_s, last_s = self._clock(), ticket.last_token_s
        ticket.last_token_s = now_s
        if last_s is None:
            ticket.first_token_s = now_s
            self._metrics.first_token(now_s - ticket.sequence.request.arrived_s)
        else:
            self._metrics.next_token(now_s - last_s)
