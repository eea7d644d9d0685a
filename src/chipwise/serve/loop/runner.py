"""Runner: takes requests through a session, one step at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Several

import numpy as np
import numpy.typing as npt

from chipwise.engine.known_fault import explained
from chipwise.engine.restarts import Restarts
from chipwise.errors import ChipwiseError, EngineError, EngineLostError, UnavailableError
from chipwise.serve.faults.logits_check import SYMPTOMS, WORDS, NumericFault, check_logits
from chipwise.serve.faults.scrub import scrub
from chipwise.serve.kv.slots import Move
from chipwise.serve.loop.answer import Answer
from chipwise.serve.loop.chooser import Chooser
from chipwise.serve.loop.ends import End, nobody, not_again, outcome, too_late, trace_end
from chipwise.serve.loop.replay import Replay
from chipwise.serve.loop.rescue import Rescue
from chipwise.serve.loop.teller import Teller
from chipwise.serve.loop.ticket import Ticket
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.workload import Workload
from chipwise.serve.request.events import Failure, Finish, Outbox
from chipwise.serve.request.limits import Limits
from chipwise.serve.request.request import Request
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.scheduler import NO_LIMITS, Scheduler, Step
from chipwise.serve.text.vocabulary import Vocabulary
from chipwise.serve.turns.turns import Turns

# An engine that fails this many steps in a row is not just unlucky with one request.
_FAILURES_UNTIL_SICK = 3

_logger = logging.getLogger(__name__)


class Runner:
    """Schedules, runs the session, chooses tokens and tells the clients.

    ``submit`` and ``cancel`` may be called from any thread; ``step`` and ``fail_all`` from the one that owns the
    session. The lock is never held while the session runs.
    """

    def __init__(
        self,
        model: ServedModel,
        scheduler: Scheduler,
        metrics: Metrics,
        vocabulary: Vocabulary,
        clock: Callable[[], float],
        limits: Callable[[], Limits] = lambda: NO_LIMITS,
        rescue: Rescue | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._session = model.session
        self._eos_ids = frozenset(model.tokenizer.special.eos_ids)
        self._scheduler = scheduler
        self._metrics = metrics
        self._vocabulary = vocabulary
        self._clock = clock
        self._limits = limits
        self._rescue = rescue
        self._turns = turns or Turns()
        self._process = model.process
        self._replay = Replay()
        if self._process is not None:
            self._process.while_waiting(self._tell_expired)
        self._teller = Teller()
        self._chooser = Chooser(model.session.vocab_size, scheduler, metrics, self._teller, clock)
        self._lock = threading.Lock()
        self._live: dict[Sequence, Ticket] = {}
        self._cancelled: set[Ticket] = set()
        self._failures = 0

    @property
    def healthy(self) -> bool:
        """Whether the engine's latest steps did not all fail, and its process is up or will be in a moment."""
        return self._failures < _FAILURES_UNTIL_SICK and not self.down

    @property
    def down(self) -> bool:
        """Whether the engine's process is lost and not expected back."""
        return self._process is not None and self._process.state == "down"

    @property
    def idle(self) -> bool:
        """Whether no request is on its way."""
        return not self._live

    def workload(self) -> Workload:
        """What it has to do and has done; from any thread."""
        scheduler, process = self._scheduler, self._process
        speculation = scheduler.speculation
        return Workload(
            waiting=scheduler.n_waiting,
            running=len(scheduler.running),
            parked=scheduler.n_parked,
            slots=scheduler.max_running,
            kv_tokens=self._kv_tokens(),
            reused=scheduler.n_reused,
            parkings=scheduler.n_displaced[0],
            evictions=scheduler.n_displaced[1],
            speculated=None if speculation is None else speculation.n_speculated,
            accepted=None if speculation is None else speculation.n_accepted,
            up=None if process is None else process.state == "up",
            restarts=None if process is None else process.restarts,
        )

    def submit(self, request: Request, outbox: Outbox) -> Ticket:
        """Take a request.

        Raises:
            OverloadedError: There is no room for it, or the hardware's limits turn it away.
            UnavailableError: The engine is down.
        """
        if self._process is not None and self.down:
            raise _unavailable(self._process)
        answer = Answer(request, self._vocabulary, self._eos_ids)
        constraint = None if request.grammar is None else request.grammar.start()
        ticket = Ticket(Sequence(request), answer, outbox, request.sampling.generator(), constraint)
        with self._lock:
            if self._scheduler.speculation is not None:
                ticket.sequence.drafter = self._scheduler.speculation.drafter(request, constraint)
            self._scheduler.submit(ticket.sequence, self._limits())
            self._add(ticket)
        return ticket

    def adopt(self, ticket: Ticket) -> None:
        """Take a request that another runner had: its tokens so far are fed here, and it goes on."""
        with self._lock:
            self._scheduler.adopt(ticket.sequence)
            self._add(ticket)
            if ticket.gone:
                self._cancelled.add(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Give up a request: its slot is free before the next step, and no event follows that step."""
        ticket.gone = True
        with self._lock:
            self._cancelled.add(ticket)

    def step(self) -> bool:
        """Run one step of the session; False if there was nothing to do."""
        self._move(self._end([(ticket, ticket.told) for ticket in self._take_cancelled()]))
        self._move(self._end(self._expired()))
        step = self._next_step() if self._usable() else None
        # What the step before said is sent while this one runs.
        self._teller.wake()
        if step is None:
            return False
        if not self._move(list(step.moves)):
            return True
        started_s = self._clock()
        try:
            with self._turns.take(min(sequence.request.priority for sequence in step.sequences)):
                output = self._session.step(step.batch)
        except EngineLostError as e:
            self._lost(e, step.sequences)
            return True
        except EngineError as e:
            # By its contract the slots of this batch hold nothing defined any more; the others are sound.
            self._failures += 1
            self._metrics.faulted("engine")
            with self._lock:
                self._scheduler.spoiled(step.sequences)
            self._move(self._lose([(self._live[sequence], e) for sequence in step.sequences]))
            return True
        self._after(step, output.logits, max(0.0, self._clock() - started_s - output.once_s))
        return True

    def fail_all(self, error: ChipwiseError) -> None:
        """Answer every request on its way with an error."""
        with self._lock:
            live = list(self._live.values())
        self._move(self._end([(ticket, Failure(error)) for ticket in live]))
        self._teller.wake()

    def _add(self, ticket: Ticket) -> None:
        self._live[ticket.sequence] = ticket
        self._turns.arrive(ticket.sequence.request.priority)

    def _remove(self, ticket: Ticket) -> None:
        del self._live[ticket.sequence]
        self._turns.leave(ticket.sequence.request.priority)

    def _next_step(self) -> Step | None:
        with self._lock:
            return self._scheduler.schedule(self._clock(), self._replay.limited(self._limits()))

    def _after(self, step: Step, logits: npt.NDArray[np.float32], duration_s: float) -> None:
        if step.kind == "prefill":
            self._metrics.prefilled(step.batch.new_tokens, duration_s)
        else:
            self._metrics.decoded(step.batch.rows, duration_s)
        every = step.batch.logits == "all"
        best, kinds = check_logits(logits, step.batch.used if every else None)
        faults = self._faults(step, kinds) if kinds else {}
        self._failures = self._failures + 1 if len(faults) == step.batch.rows else 0
        with self._lock:
            moves = self._scheduler.advance(step, duration_s)
        tickets = [self._live[sequence] for sequence in step.sequences]
        if step.chooses:
            sound = [(row, ticket) for row, ticket in enumerate(tickets) if row not in faults]
            ends = [
                (ticket, self._chooser.choose(ticket, step.logits(logits, row), step.best(best, row), step.draft(row)))
                for row, ticket in sound
            ]
            moves += self._end([(ticket, end) for ticket, end in ends if end is not None])
        moves += self._lose([(tickets[row], error) for row, error in faults.items()])
        self._move(moves)

    def _faults(self, step: Step, kinds: Mapping[int, NumericFault]) -> dict[int, EngineError]:
        """What to say of the rows that hold no logits. Nobody takes over what their slots hold."""
        with self._lock:
            self._scheduler.spoiled([step.sequences[row] for row in kinds])
        for row, kind in kinds.items():
            self._metrics.faulted(kind)
            if SYMPTOMS[kind] == "not_finite":
                slot = step.batch.first_slot + row
                scrub(self._session, slot, int(step.batch.past[row]) + step.batch.new_tokens)
        return {
            row: EngineError(f"the model's logits {WORDS[kind]}{explained(self._session, SYMPTOMS[kind])}")
            for row, kind in kinds.items()
        }

    def _usable(self) -> bool:
        """Whether the engine can be asked. If its process is lost and not coming back, nobody waits for it."""
        process = self._process
        if process is None:
            return True
        if (loss := process.renew()) is not None:
            self._lost(loss)
        if self.down:
            with self._lock:
                live = list(self._live.values())
            self._lose([(ticket, _unavailable(process)) for ticket in live])
        return process.state == "up"

    def _lost(self, error: EngineLostError, stepping: Iterable[Sequence] = ()) -> None:
        """The engine's process is gone, and all KV with it: who held some goes on from its tokens, there or elsewhere.

        Args:
            error: How it was lost.
            stepping: Those that were in the step that it was lost in.
        """
        self._metrics.faulted("engine")
        if self._process is not None:
            self._process.renew()
        with self._lock:
            self._scheduler.forget()
        if self._rescue is not None:
            self._lose([(self._live[sequence], error) for sequence in self._scheduler.holding])
            return
        spent = self._replay.blame([self._live[sequence] for sequence in stepping])
        self._end([(ticket, Failure(not_again(ticket, error))) for ticket in spent])
        now_s = self._clock()
        with self._lock:
            again = self._scheduler.holding
            self._scheduler.release(*again)
            for sequence in again:
                sequence.note("engine_restart", now_s, **{"chipwise.reason": str(error)})
                sequence.restart()
                self._scheduler.adopt(sequence)
        _logger.warning("%d requests are fed again to the engine's next process: %s", len(again), error)

    def _lose(self, lost: Several[tuple[Ticket, ChipwiseError]]) -> list[Move]:
        """Requests that the engine failed: they go on in the fallback, or end with the error."""
        rescue = self._rescue
        if not lost or rescue is None:
            return self._end([(ticket, Failure(error)) for ticket, error in lost])
        rescue.faulted()
        with self._lock:
            if rescue.open:
                # Nobody waits for an engine that is asked nothing.
                leaving, error = {ticket.sequence for ticket, _ in lost}, lost[0][1]
                lost = [*lost, *((self._live[one], error) for one in self._scheduler.waiting if one not in leaving)]
            moves = self._scheduler.release(*(ticket.sequence for ticket, _ in lost))
            for ticket, _ in lost:
                self._remove(ticket)
        for ticket, error in lost:
            _logger.warning("request %s goes on in the fallback: %s", ticket.sequence.request.id, error)
            ticket.sequence.note("fallback", self._clock(), **{"chipwise.reason": str(error)})
            ticket.sequence.restart()
            if not rescue.take(ticket):
                self._metrics.over("error")
                self._teller.tell(ticket, Failure(error))
                trace_end(ticket, Failure(error), self._clock())
        return moves

    def _take_cancelled(self) -> list[Ticket]:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
        return [ticket for ticket in cancelled if ticket.sequence in self._live]

    def _end(self, ends: Several[tuple[Ticket, End]]) -> list[Move]:
        """Free the slots of requests that are over, then tell their clients (None: the client has gone)."""
        if not ends:
            return []
        now_s = self._clock()
        with self._lock:
            complete = [ticket.sequence for ticket, end in ends if isinstance(end, Finish)]
            others = [ticket.sequence for ticket, end in ends if not isinstance(end, Finish)]
            moves = self._scheduler.release(*complete, now_s=now_s) + self._scheduler.release(*others)
            for ticket, _ in ends:
                self._remove(ticket)
                self._replay.over(ticket)
        if complete and self._rescue is not None:
            self._rescue.answered()
        for ticket, end in ends:
            self._metrics.over(outcome(end))
            if end is not None:
                self._teller.tell(ticket, end)
            trace_end(ticket, end, now_s)
        return moves

    def _expired(self) -> list[tuple[Ticket, Failure]]:
        now_s = self._clock()
        with self._lock:
            expired = self._scheduler.expired(now_s)
        return [(self._live[sequence], Failure(too_late(self._live[sequence], now_s))) for sequence in expired]

    def _tell_expired(self) -> None:
        """A step takes long, perhaps for good: whose deadline passes meanwhile hears so now, and is ended after it."""
        for ticket, end in self._expired():
            self._teller.tell(ticket, end)
            # A client that has its answer goes away: that is no reason of its own.
            ticket.outbox, ticket.told = nobody, end
        self._teller.wake()

    def _move(self, moves: list[Move]) -> bool:
        """Copy KV; False if that failed, and everybody who held some was told."""
        if moves:
            self._teller.wake()
        try:
            for move in moves:
                self._session.move_slot(move.source, move.target, move.tokens)
        except EngineLostError as e:
            self._lost(e)
            return False
        except EngineError as e:
            # Which slots are sound is unknown, so none is trusted. All leave, so no further move is needed.
            self._failures += 1
            self._metrics.faulted("engine")
            with self._lock:
                self._scheduler.forget()
            self._lose([(self._live[sequence], e) for sequence in self._scheduler.holding])
            return False
        return True

    def _kv_tokens(self) -> int:
        with self._lock:
            return sum(sequence.past for sequence in self._scheduler.holding)


def _unavailable(process: Restarts) -> UnavailableError:
    return UnavailableError(
        f"the engine is down ({process.trouble})", remedy="try again later, or see the server's log"
    )
