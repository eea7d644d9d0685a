"""The server: a model behind HTTP, from taking the port to draining."""

from __future__ import annotations

import gc
import logging
import platform
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from chipwise.bundle import Bundle, open_bundle
from chipwise.engine.isolated import Isolation
from chipwise.engine.restarts import Restarts
from chipwise.engine.session import PaddedPrefill, Session
from chipwise.errors import BundleError, ChipwiseError, EngineError, InputError
from chipwise.files import sha256_bytes
from chipwise.serve.assembly import Served, make_site, open_single_shots
from chipwise.serve.board_option import BoardSettings, open_board
from chipwise.serve.bundle_facts import created_s
from chipwise.serve.chunks import ChunkRule
from chipwise.serve.grammar import Grammars
from chipwise.serve.hardware import Hardware
from chipwise.serve.hardware_metrics import HardwareCollector
from chipwise.serve.http.app import create_app
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.service import Service
from chipwise.serve.http_server import HttpServer
from chipwise.serve.kept_prompts import restore, save
from chipwise.serve.lanes import Lanes
from chipwise.serve.late_session import LateSession
from chipwise.serve.listener import bind, listen, url_of
from chipwise.serve.loop import Loop
from chipwise.serve.metrics import Metrics
from chipwise.serve.prefix_proof import reuses_exactly
from chipwise.serve.priority import Priority
from chipwise.serve.process_metrics import expose_process
from chipwise.serve.rescue import Rescue, expose_rescue
from chipwise.serve.runner import Runner
from chipwise.serve.scheduler import NO_LIMITS, Scheduler, SchedulerRules
from chipwise.serve.served_graph import holds_graph
from chipwise.serve.served_model import ServedModel
from chipwise.serve.settings import ServeSettings
from chipwise.serve.speculation.speculation import Speculation, make_speculation
from chipwise.serve.vocabulary import Vocabulary

# How long a step may still run when the server has ended; its session is then left to the end of the process.
_LAST_STEP_S = 5.0
# A slot of this many tokens suits most models and boards; longer ones are asked for.
_DEFAULT_CONTEXT = 4096

# How long requests wait for an engine's next process while another engine could answer them.
_PATIENCE_BESIDE_FALLBACK_S = 1.0
# What runs in the server's own process unless asked otherwise. A vendor's runtime, which may crash or hang, does not.
_TRUSTED_ENGINES = ("onnxruntime", "null")


FallbackMode = Literal["lazy", "resident", "off"]
"""When the second engine of a bundle is opened: on first need, at the start, or never."""

_logger = logging.getLogger(__name__)


def _nothing(*_: object) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Announcer:
    """Whom the server tells how it goes.

    Attributes:
        ready: Called with the models and the base URL once requests are answered.
        board: Called with the hardware that is watched, before that.
        draining: Called when the server was told to end.
    """

    ready: Callable[[Served, str], None] = _nothing
    board: Callable[[Hardware], None] = _nothing
    draining: Callable[[], None] = _nothing


def serve(
    path: Path,
    settings: ServeSettings,
    *,
    n_slots: int,
    max_context: int | None = None,
    threads: int | None = None,
    fallback: FallbackMode = "lazy",
    isolate: bool | None = None,
    isolation: Isolation | None = None,
    keys: Keys | None = None,
    board: BoardSettings | None = None,
    announcer: Announcer | None = None,
    embeddings: Path | None = None,
    infer: Path | None = None,
) -> None:
    """Serve a bundle until SIGINT or SIGTERM. To be called in the main thread, once a process.

    Args:
        path: The bundle's folder.
        settings: The server's settings.
        n_slots: Requests of any priority that run at once; reserved and parking slots come on top.
        max_context: Tokens of a prompt and its answer; None takes the model's own limit, 4096 at most.
        threads: Threads of the engine; None leaves it to the bundle or the engine.
        fallback: When the bundle's second engine is opened.
        isolate: Whether the engine of a language model runs in a process of its own; None decides by the engine.
        isolation: How that process is kept.
        keys: Who may ask; None lets everybody.
        board: The board that is watched; None watches none.
        announcer: Whom to tell.
        embeddings: The bundle of an encoder that is served beside it; None for none, unless the bundle is one itself.
        infer: The same for a plain graph.

    Raises:
        InputError: There is no such board, its clock may not be set, there is no fallback to be resident, or two
            bundles are for the same route.
        PortInUseError: The port is taken. Nothing has been loaded then.
        BundleError: The bundle is not sound, or holds nothing to serve.
        EngineError: The model cannot be loaded, or the server broke.
    """
    with closing(bind(settings.host, settings.port)) as listener:
        bundle, slots = open_bundle(path), n_slots + settings.reserved_slots + settings.parking_slots
        if holds_graph(bundle):
            _refuse_board(board)
            served = open_single_shots(bundle, embeddings, infer, threads=threads)
            run_server(served, listener, settings, announcer, keys)
            return
        kept = _isolation(bundle, isolate, isolation, fallback)
        model = _model_of(bundle, slots, max_context, threads, fallback, kept)
        # After the language model: its engine's process, if it has one, is started with fewer threads about.
        served = open_single_shots(bundle, embeddings, infer, threads=threads)
        # What was loaded stays: the collector need not walk it between two tokens.
        gc.collect()
        gc.freeze()
        if board is None:
            run_server(replace(served, chat=model), listener, settings, announcer, keys)
            return
        with open_board(model, board, slots - settings.parking_slots) as (watched, hardware):
            (announcer or Announcer()).board(hardware)
            run_server(replace(served, chat=watched), listener, settings, announcer, keys, hardware)


def _refuse_board(board: BoardSettings | None) -> None:
    if board is not None and board.board is not None:
        raise InputError("only language models are served by a board's heat", where="--board", remedy="leave it out")


def open_model(
    path: Path,
    *,
    n_slots: int,
    max_context: int | None,
    threads: int | None,
    fallback: FallbackMode = "lazy",
    isolate: bool | None = None,
    isolation: Isolation | None = None,
) -> ServedModel:
    """Open a bundle: every digest is checked and its self-test run. The arguments are those of ``serve``.

    Raises:
        InputError: The fallback shall be resident, and there is none.
        BundleError: It is not sound, or has no tokenizer.
        EngineError: Its model cannot be loaded.
    """
    bundle = open_bundle(path)
    return _model_of(bundle, n_slots, max_context, threads, fallback, _isolation(bundle, isolate, isolation, fallback))


def _isolation(
    bundle: Bundle, isolate: bool | None, isolation: Isolation | None, fallback: FallbackMode
) -> Isolation | None:
    """How the engine's process is kept; None if it has none of its own. Beside a fallback nobody waits for it."""
    if isolate is None:
        isolate = bundle.manifest.engine.name not in _TRUSTED_ENGINES
    kept = isolation or Isolation()
    if bundle.manifest.fallback is not None and fallback != "off":
        kept = replace(kept, patience_s=_PATIENCE_BESIDE_FALLBACK_S, patience_factor=0.0)
    return kept if isolate else None


def _model_of(
    bundle: Bundle,
    n_slots: int,
    max_context: int | None,
    threads: int | None,
    fallback: FallbackMode,
    isolation: Isolation | None,
) -> ServedModel:
    tokenizer, manifest = bundle.tokenizer, bundle.manifest
    if tokenizer is None:
        raise BundleError(
            "the bundle has no tokenizer, so it cannot answer text",
            where=str(bundle.path),
            remedy="serve a language model",
        )
    context = _own_context(bundle) if max_context is None else max_context
    session = bundle.open_session(n_slots, context, threads=threads, isolation=isolation)
    try:
        return ServedModel(
            name=manifest.name,
            session=session,
            tokenizer=tokenizer,
            chat_template=bundle.chat_template,
            created_s=created_s(bundle),
            fingerprint=f"fp_{sha256_bytes(manifest.to_json())[:10]}",
            emulates=manifest.emulates,
            reuses_prefixes=reuses_exactly(session),
            fallback=_fallback(bundle, fallback, session, threads),
            process=session if isinstance(session, Restarts) else None,
        )
    except BaseException:
        session.close()
        raise


def _fallback(bundle: Bundle, mode: FallbackMode, session: Session, threads: int | None) -> Session | None:
    if mode == "resident" and bundle.manifest.fallback is None:
        raise InputError("it has no fallback", where=str(bundle.path), remedy="build it with --fallback fp16")
    if mode == "off" or bundle.manifest.fallback is None:
        return None
    late = LateSession(
        lambda: bundle.open_fallback(session.n_slots, session.max_context, threads=threads),
        n_slots=session.n_slots,
        max_context=session.max_context,
        vocab_size=session.vocab_size,
    )
    if mode == "resident":
        late.open()
    return late


def run_server(
    served: Served,
    listener: socket.socket,
    settings: ServeSettings,
    announcer: Announcer | None = None,
    keys: Keys | None = None,
    hardware: Hardware | None = None,
) -> None:
    """Serve open models on a bound socket until told to end; closes their sessions.

    Raises:
        PortInUseError: The port was taken while the model loaded.
        EngineError: The serving loop broke.
    """
    tell = announcer or Announcer()
    service = None
    if served.chat is not None:
        service = make_service(served.chat, settings, when_broken=lambda: server.leave(), keys=keys, hardware=hardware)
    site = make_site(settings, service, served, keys=keys)
    server = HttpServer(
        create_app(site),
        site.worker,
        grace_s=settings.grace_s,
        on_ready=lambda: tell.ready(served, url_of(listener)),
        on_drain=tell.draining,
    )
    site.worker.start()
    try:
        listen(listener)
        server.run(sockets=[listener])
    finally:
        if site.worker.stop(_LAST_STEP_S):
            if service is not None:
                keep_prompts(service)
            served.close()
    if service is not None and service.loop.broken is not None:
        raise EngineError("the serving loop broke", remedy="see the log") from service.loop.broken


def make_service(
    model: ServedModel,
    settings: ServeSettings,
    *,
    when_broken: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    keys: Keys | None = None,
    hardware: Hardware | None = None,
) -> Service:
    """Put together what serves a model. The loop is not started.

    Args:
        model: The model; its session has a slot for each that runs and each that is parked.
        settings: The server's settings.
        when_broken: Called from the serving thread if it ends because of an error.
        clock: The time in seconds.
        keys: Who may ask; None lets everybody.
        hardware: What it runs on, and lets be done; None for no limits.

    Raises:
        InputError: The settings do not fit the model.
    """
    if settings.sinks is not None and settings.sinks >= model.session.max_context // 2:
        raise InputError(
            f"{settings.sinks} tokens that stay leave no room in a context of {model.session.max_context}",
            where="--sinks",
            remedy="keep fewer than half of it",
        )
    session, metrics, vocabulary = model.session, Metrics(), Vocabulary(model.tokenizer)
    limits = (lambda: NO_LIMITS) if hardware is None else hardware.limits
    whole_tokens = session.whole_tokens if isinstance(session, PaddedPrefill) else 1
    # A start shorter than a fixed prefill graph is computed by that graph, and what follows by another one.
    least_reused = whole_tokens if model.reuses_prefixes else None
    fallback: Loop | None = None
    rescue: Rescue | None = None
    if model.fallback is not None:
        second = replace(model, session=model.fallback, fallback=None, process=None)
        runner = Runner(second, _scheduler(model.fallback, settings, None), metrics, vocabulary, clock, limits)
        fallback = Loop(runner, when_broken)
        rescue = Rescue(fallback.adopt, clock)
        expose_rescue(metrics, rescue, lambda: runner.n_running)
    speculation = make_speculation(session, model.tokenizer, vocabulary) if settings.speculate else None
    scheduler = _scheduler(session, settings, least_reused, speculation)
    main = Runner(model, scheduler, metrics, vocabulary, clock, limits, rescue)
    main.expose()
    if model.process is not None:
        expose_process(metrics, model.process)
    if hardware is not None:
        metrics.collect(HardwareCollector(hardware))
    contents = scheduler.contents
    if settings.kept_prompts is not None and model.reuses_prefixes:
        restore(settings.kept_prompts, _kv_identity(model), session, contents)
    grammars = Grammars(vocabulary, session.vocab_size, model.tokenizer.special.eos_ids)
    lanes = Lanes(Loop(main, when_broken), fallback, rescue)
    return Service(model, vocabulary, grammars, lanes, metrics, clock, settings, keys, hardware, contents)


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
            whole_tokens=session.whole_tokens if isinstance(session, PaddedPrefill) else 1,
        ),
        least_reused=least_reused,
    )
    return Scheduler(
        n_slots=session.n_slots, max_step_tokens=session.max_step_tokens, rules=rules, speculation=speculation
    )


def keep_prompts(service: Service) -> None:
    """Let the prompts in the slots outlive the server, if it is set so. To be called once the loop has ended."""
    folder, contents = service.settings.kept_prompts, service.contents
    if folder is None or contents is None or service.loop.broken is not None:
        return
    try:
        save(folder, _kv_identity(service.model), service.model.session, contents)
    except ChipwiseError as e:
        # The server ends all the same; the next one starts without.
        _logger.warning("prompts are not kept: %s", e)


def _kv_identity(model: ServedModel) -> str:
    """What KV depends on, to the last bit."""
    versions = [f"{name} {version(name)}" for name in ("chipwise", "onnxruntime", "numpy")]
    return "; ".join([model.name, str(model.fingerprint), *versions, platform.machine(), platform.node()])


def _own_context(bundle: Bundle) -> int:
    longest = bundle.manifest.model.config.get("max_positions")
    return min(longest, _DEFAULT_CONTEXT) if isinstance(longest, int) and longest > 0 else _DEFAULT_CONTEXT
