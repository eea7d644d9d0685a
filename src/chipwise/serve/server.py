"""The server: models behind HTTP, from taking the port to draining."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from chipwise.bundle import Bundle, open_bundle
from chipwise.engine.restarts import HasProcess
from chipwise.errors import EngineError, InputError
from chipwise.serve.api.app import create_app
from chipwise.serve.assembly.assembly import Served, make_site, open_single_shots
from chipwise.serve.assembly.make_exchange import chat_seat, make_exchange, seats_of
from chipwise.serve.connection.http_server import HttpServer
from chipwise.serve.connection.listener import bind, listen, url_of
from chipwise.serve.exchange.early_hang_ups import EarlyHangUps, early_hang_ups
from chipwise.serve.hardware.board_option import BoardSettings, open_board
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.rung import variants_of
from chipwise.serve.http.keys import Keys
from chipwise.serve.kv.kept_prompts import make_folder
from chipwise.serve.models.allocator import give_back_large_blocks
from chipwise.serve.models.isolation_rule import isolation_of
from chipwise.serve.models.open_model import ModelOpener
from chipwise.serve.models.served_graph import holds_graph
from chipwise.serve.settings import ServeSettings
from chipwise.serve.turns.turns import Turns

# How long a step may still run when the server has ended; its session is then left to the end of the process.
_LAST_STEP_S = 5.0
# How long a model that is being opened then is waited for: a runtime must not lose its process while it reads.
_OPENING_S = 30.0


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
    opener: ModelOpener,
    *,
    keys: Keys | None = None,
    board: BoardSettings | None = None,
    announcer: Announcer | None = None,
    embeddings: Path | None = None,
    infer: Path | None = None,
    of_chat: tuple[str, ...] = (),
) -> None:
    """Serve a bundle until SIGINT or SIGTERM. To be called in the main thread, once a process.

    Args:
        path: The bundle's folder.
        settings: The server's settings.
        opener: Opens its language model, with slots for the reserved and the parked, too; of encoders and plain graphs
            its threads and its engines' processes count alone.
        keys: Who may ask; None lets everybody.
        board: The board that is watched; None watches none.
        announcer: Whom to tell.
        embeddings: The bundle of an encoder that is served beside it; None for none, unless the bundle is one itself.
        infer: The same for a plain graph.
        of_chat: Options that the user gave and that mean nothing without a language model; none of them is read here.

    Raises:
        InputError: There is no such board, its clock may not be set, there is no fallback to be resident, two bundles
            are for the same route, or something was asked for that no model here has.
        PortInUseError: The port is taken. Nothing has been loaded then.
        OutputError: Prompts are to be kept in a folder that takes none.
        BundleError: The bundle is not sound, or holds nothing to serve.
        EngineError: The model cannot be loaded, or the server broke.
    """
    give_back_large_blocks()
    with early_hang_ups() as early, closing(bind(settings.host, settings.port)) as listener:
        bundle = _open_own(path, settings, opener, alone=embeddings is None and infer is None)
        if holds_graph(bundle):
            _refuse_of_chat(of_chat, board, bundle)
            served = _open_single_shots(opener, bundle, embeddings, infer)
            _refuse_idle_timeout(opener, bundle, served)
            _run(served, opener, listener, early, settings, announcer, keys)
            return
        with ExitStack() as stack:
            hardware = None
            if board is not None:
                running = opener.n_slots - settings.parking_slots
                watched = stack.enter_context(open_board(board, running, variants_of(bundle)))
                hardware, opener = watched.hardware, replace(opener, wrap=watched.wrap)
            model = opener.open(bundle)
            # After the language model: its engine's process, if it has one, is started with fewer threads about.
            served = _open_single_shots(opener, bundle, embeddings, infer)
            _refuse_idle_timeout(opener, bundle, served)
            if hardware is not None and announcer is not None:
                announcer.board(hardware)
            # What was loaded stays: the collector need not walk it between two tokens.
            gc.collect()
            gc.freeze()
            served = served.beside(model, bundle)
            _run(served, opener, listener, early, settings, announcer, keys, hardware)


def _open_own(path: Path, settings: ServeSettings, opener: ModelOpener, *, alone: bool) -> Bundle:
    """The bundle that is served, and what is wrong with the settings, before anything is loaded for minutes."""
    if settings.kept_prompts is not None:
        # Found now, not when the server ends and the prompts are lost.
        make_folder(settings.kept_prompts)
    bundle = open_bundle(path)
    if alone:
        _refuse_idle_timeout(opener, bundle)
    return bundle


def _open_single_shots(opener: ModelOpener, bundle: Bundle, embeddings: Path | None, infer: Path | None) -> Served:
    return open_single_shots(
        bundle, embeddings, infer, threads=opener.threads, isolate=opener.isolate, isolation=opener.isolation
    )


def _refuse_of_chat(options: tuple[str, ...], board: BoardSettings | None, bundle: Bundle) -> None:
    first = next(iter(options), "--board" if board is not None and board.board is not None else None)
    if first is not None:
        raise InputError(
            f"it is for language models, and {bundle.manifest.name} is none", where=first, remedy="leave it out"
        )


def _refuse_idle_timeout(opener: ModelOpener, bundle: Bundle, beside: Served | None = None) -> None:
    """Refuse a limit for engines' processes where none has one, nor any form that the language model may change to."""
    isolation = opener.isolation
    if isolation is None or isolation.step_timeout_s is None:
        return
    forms = (bundle, *bundle.variants.values())
    sessions = () if beside is None else (one.session for one in (beside.encoder, beside.graph) if one is not None)
    if any(isolation_of(form, opener.isolate, isolation) for form in forms):
        return
    if any(isinstance(session, HasProcess) for session in sessions):
        return
    raise InputError(
        "no engine here has a process of its own, and one without cannot be ended when it hangs",
        where="--engine-timeout",
        remedy="add --isolate, or leave it out",
    )


def _run(
    served: Served,
    opener: ModelOpener,
    listener: socket.socket,
    early: EarlyHangUps,
    settings: ServeSettings,
    announcer: Announcer | None,
    keys: Keys | None,
    hardware: Hardware | None = None,
) -> None:
    """Serve open models on a bound socket until told to end; closes their sessions.

    Raises:
        PortInUseError: The port was taken while the model loaded.
        EngineError: The serving loop broke.
    """
    tell, bundles, turns = announcer or Announcer(), served.bundles, Turns()
    chat = None
    if served.chat is not None:
        chat = chat_seat(
            served.chat, bundles["chat"], opener, settings,
            when_broken=lambda: server.leave(), keys=keys, hardware=hardware, turns=turns,
        )  # fmt: skip
    site = make_site(settings, None if chat is None else chat.post, served, keys=keys, turns=turns)
    seats = seats_of(site, chat, bundles, opener)
    exchange = make_exchange(seats, site.metrics, hardware=hardware, turns=turns)

    def announce() -> None:
        tell.ready(served, url_of(listener))
        if early.end():
            exchange.reread()

    def drain() -> None:
        exchange.drain()
        tell.draining()

    server = HttpServer(
        create_app(replace(site, exchange=exchange)),
        site.worker,
        grace_s=settings.grace_s,
        on_ready=announce,
        on_drain=drain,
        on_reload=exchange.reread,
    )
    site.worker.start()
    try:
        listen(listener)
        exchange.start()
        server.run(sockets=[listener])
    finally:
        opened = exchange.stop(_OPENING_S)
        if site.worker.stop(_LAST_STEP_S) and opened:
            site.close_models()
        site.close()
    if chat is not None and chat.post.broken is not None:
        raise EngineError("the serving loop broke", remedy="see the log") from chat.post.broken
