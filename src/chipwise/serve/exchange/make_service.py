"""Putting together what serves a language model, and taking leave of it."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from chipwise.engine.llamacpp.binding import runtime as llama_cpp
from chipwise.engine.session import Session, draft_limits, whole_tokens
from chipwise.errors import ChipwiseError, InputError
from chipwise.serve.exchange.service import Service
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.http.keys import Keys
from chipwise.serve.kv.kept_prompts import restore, save
from chipwise.serve.loop.lanes import Lanes
from chipwise.serve.loop.loop import Loop
from chipwise.serve.loop.rescue import Rescue
from chipwise.serve.loop.runner import Runner
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.request.priority import Priority
from chipwise.serve.schedule.chunks import ChunkRule
from chipwise.serve.schedule.scheduler import NO_LIMITS, Scheduler, SchedulerRules
from chipwise.serve.schedule.speculation import Speculation, make_speculation
from chipwise.serve.settings import ServeSettings
from chipwise.serve.text.grammar import Grammars
from chipwise.serve.text.vocabulary import Vocabulary
from chipwise.serve.turns.turns import Turns

_logger = logging.getLogger(__name__)


def make_service(
    model: ServedModel,
    settings: ServeSettings,
    *,
    when_broken: Callable[[], None],
    metrics: Metrics | None = None,
    clock: Callable[[], float] = time.monotonic,
    keys: Keys | None = None,
    hardware: Hardware | None = None,
    turns: Turns | None = None,
    names: tuple[str, ...] = (),
    like: Service | None = None,
) -> Service:
    """Put together what serves a model. The loop is not started.

    Args:
        model: The model; its session has a slot for each that runs and each that is parked.
        settings: The server's settings.
        when_broken: Called from the serving thread if it ends because of an error.
        metrics: What is counted; None counts anew.
        clock: The time in seconds.
        keys: Who may ask; None lets everybody.
        hardware: What it runs on, and lets be done; None for no limits.
        turns: Who may run a step, shared with what it takes over from; None if that is nothing.
        names: What requests may call it, the one for lists first; its own name if there are none.
        like: Another service, whose vocabulary and compiled grammars are taken if it has the same tokenizer.

    Raises:
        InputError: The settings do not fit the model.
    """
    if settings.sinks is not None and settings.sinks >= model.session.max_context // 2:
        raise InputError(
            f"{settings.sinks} tokens that stay leave no room in a context of {model.session.max_context}",
            where="--sinks",
            remedy="keep fewer than half of it",
        )
    session, metrics = model.session, metrics or Metrics()
    vocabulary, grammars = _words(model, like)
    limits = (lambda: NO_LIMITS) if hardware is None else hardware.limits
    fallback: Loop | None = None
    rescue: Rescue | None = None
    if model.fallback is not None:
        second = replace(model, session=model.fallback, fallback=None, process=None)
        runner = Runner(second, _scheduler(model.fallback, settings, None), metrics, vocabulary, clock, limits)
        fallback = Loop(runner, when_broken)
        rescue = Rescue(fallback.adopt, clock)
    speculation = make_speculation(session, model.tokenizer, vocabulary) if settings.speculate else None
    scheduler = _scheduler(session, settings, _least_reused(model), speculation)
    main = Runner(model, scheduler, metrics, vocabulary, clock, limits, rescue, turns)
    contents = scheduler.contents
    if (folder := _kept_folder(model, settings)) is not None and model.reuses_prefixes:
        restore(folder, _kv_identity(model), session, contents)
    lanes = Lanes(Loop(main, when_broken), fallback, rescue)
    return Service(
        model, vocabulary, grammars, lanes, metrics, clock, settings, keys, hardware, contents, names or (model.name,)
    )


def keep_prompts(service: Service) -> None:
    """Let the prompts in the slots outlive the model, if it is set so. To be called once the loop has ended."""
    folder, contents = _kept_folder(service.model, service.settings), service.contents
    if folder is None or contents is None or service.loop.broken is not None:
        return
    try:
        save(folder, _kv_identity(service.model), service.model.session, contents)
    except ChipwiseError as e:
        # The server goes on or ends all the same; the next one starts without.
        _logger.warning("prompts are not kept: %s", e)


def _words(model: ServedModel, like: Service | None) -> tuple[Vocabulary, Grammars]:
    vocab_size, tokenizer = model.session.vocab_size, model.tokenizer
    if like is not None and like.model.tokenizer is tokenizer and like.model.session.vocab_size == vocab_size:
        return like.vocabulary, like.grammars
    vocabulary = Vocabulary(tokenizer)
    grammars = Grammars(vocabulary, vocab_size, tokenizer.special.eos_ids)
    grammars.make_ready()
    return vocabulary, grammars


def _least_reused(model: ServedModel) -> int | None:
    # A start shorter than a fixed prefill graph is computed by that graph, and what follows by another one.
    return whole_tokens(model.session) if model.reuses_prefixes else None


def _scheduler(
    session: Session, settings: ServeSettings, least_reused: int | None, speculation: Speculation | None = None
) -> Scheduler:
    rules = SchedulerRules(
        max_running=session.n_slots - settings.parking_slots,
        reserved=settings.reserved_slots,
        max_waiting=dict.fromkeys(Priority, settings.max_waiting),
        chunks=ChunkRule(
            budget_s=settings.step_budget_s,
            unmeasured_tokens=settings.chunk_tokens,
            whole_tokens=whole_tokens(session),
        ),
        least_reused=least_reused,
    )
    return Scheduler(
        n_slots=session.n_slots,
        max_step_tokens=session.max_step_tokens,
        rules=rules,
        speculation=speculation,
        draft_tokens=draft_limits(session)[0],
    )


def _kept_folder(model: ServedModel, settings: ServeSettings) -> Path | None:
    """Where a model's prompts are kept; each form has a place of its own, so that none removes another's."""
    folder = settings.kept_prompts
    return folder if folder is None or model.variant is None else folder / model.variant


def _kv_identity(model: ServedModel) -> str:
    """What KV depends on, to the last bit."""
    versions = [f"{name} {version(name)}" for name in ("chipwise", "onnxruntime", "numpy")]
    return "; ".join([model.name, str(model.fingerprint), *versions, llama_cpp(), platform.machine(), platform.node()])
