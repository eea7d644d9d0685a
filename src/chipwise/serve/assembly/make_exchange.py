"""Putting together what exchanges the models of a server, each with the post it is served at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from chipwise.bundle import Bundle
from chipwise.serve.api.site import Site
from chipwise.serve.assembly.make_shot import make_encoder_shot, make_graph_shot
from chipwise.serve.exchange.exchange import Exchange
from chipwise.serve.exchange.exchange_metrics import ExchangeCollector
from chipwise.serve.exchange.make_service import keep_prompts, make_service
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.seat import Kind, Seat
from chipwise.serve.exchange.service import Service
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.hardware_metrics import HardwareCollector
from chipwise.serve.hardware.rung import variants_of
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.models.isolation_rule import isolation_of
from chipwise.serve.models.memory_need import machine_free_bytes, need_bytes
from chipwise.serve.models.open_model import ModelOpener
from chipwise.serve.models.served_encoder import ServedEncoder, open_encoder
from chipwise.serve.models.served_graph import ServedGraph, open_served_graph
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.workload import WorkloadCollector
from chipwise.serve.settings import ServeSettings
from chipwise.serve.turns.spare_time import SpareTime
from chipwise.serve.turns.turns import Turns

T = TypeVar("T")


def chat_seat(
    model: ServedModel,
    bundle: Bundle,
    opener: ModelOpener,
    settings: ServeSettings,
    *,
    when_broken: Callable[[], None],
    keys: Keys | None = None,
    hardware: Hardware | None = None,
    turns: Turns | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Seat[Service]:
    """Put a language model to its post. Nothing is started.

    Args:
        model: The model.
        bundle: Its bundle.
        opener: Opens others.
        settings: The server's settings.
        when_broken: Called from a serving thread if it ends because of an error.
        keys: Who may ask; None lets everybody.
        hardware: What it runs on; None if nobody looks.
        turns: Those of all that is served; None if nothing else is.
        clock: The time in seconds.

    Raises:
        InputError: The settings do not fit the model.
    """
    metrics, turns = Metrics(), turns or Turns()

    def make(opened: ServedModel, names: tuple[str, ...], like: Service | None = None) -> Service:
        return make_service(
            opened, settings, when_broken=when_broken, metrics=metrics, keys=keys, hardware=hardware, turns=turns,
            names=names, clock=clock, like=like,
        )  # fmt: skip

    def open_beside(
        bundle: Bundle, variant: str | None, names: tuple[str, ...], before: Service, spare: SpareTime
    ) -> Service:
        opened = opener.open(bundle, variant, like=before.model, spare=spare)
        spare.pause()
        return _or_closed(opened.close, lambda: make(opened, names, before))

    def need(form: Bundle) -> int:
        resident = opener.fallback == "resident"
        return need_bytes(form, opener.n_slots, opener.context(form), with_fallback=resident)

    def offer(bundle: Bundle) -> None:
        if hardware is not None:
            hardware.offer(variants_of(bundle))

    post = Post(make(model, (model.name,)), turns, farewell=keep_prompts)
    metrics.collect(WorkloadCollector(post.workload))
    if hardware is not None:
        metrics.collect(HardwareCollector(hardware))
    return Seat("chat", post, bundle, open_beside, need, offer)


def seats_of(
    site: Site, chat: Seat[Service] | None, bundles: Mapping[Kind, Bundle], opener: ModelOpener
) -> tuple[Seat[Any], ...]:
    """All posts of a site, with how others are opened for them.

    Args:
        site: Where the posts are.
        chat: The language model's; None if none is served.
        bundles: Where those came from that answer in one run.
        opener: How their engines are opened.
    """
    seats: list[Seat[Any]] = [] if chat is None else [chat]
    if site.embeddings is not None:
        seats.append(_encoder_seat(site.embeddings, bundles["embeddings"], opener))
    if site.inference is not None:
        seats.append(_graph_seat(site.inference, bundles["infer"], opener))
    return tuple(seats)


def make_exchange(
    seats: Sequence[Seat[Any]],
    metrics: Metrics,
    *,
    hardware: Hardware | None = None,
    turns: Turns | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Exchange:
    """Put together what exchanges those that are served. Its thread is not started.

    Args:
        seats: The posts, at least one, the language model's first.
        metrics: What is counted.
        hardware: What they run on; None if nobody looks.
        turns: Those of all that is served; None if nothing waits for any.
        clock: The time in seconds.
    """

    def free_bytes() -> float | None:
        return machine_free_bytes() if hardware is None else hardware.state.free_bytes.value

    exchange = Exchange(seats, free_bytes=free_bytes, turns=turns, clock=clock)
    metrics.collect(ExchangeCollector(exchange))
    if hardware is not None:
        hardware.follow(exchange.want)
    return exchange


def _encoder_seat(
    post: Post[SingleShot[ServedEncoder]], bundle: Bundle, opener: ModelOpener
) -> Seat[SingleShot[ServedEncoder]]:
    """An encoder's post, with how another one is opened: as the options for engines say."""

    def open_beside(
        bundle: Bundle, _: str | None, names: tuple[str, ...], before: SingleShot[ServedEncoder], spare: SpareTime
    ) -> SingleShot[ServedEncoder]:
        isolation = isolation_of(bundle, opener.isolate, opener.isolation)
        spare.pause()
        model = open_encoder(bundle, threads=opener.threads, isolation=isolation, turn=spare.turn)
        make = partial(make_encoder_shot, model, before.settings, before.metrics, before.clock, names)
        return _or_closed(model.session.close, make)

    return Seat("embeddings", post, bundle, open_beside)


def _graph_seat(
    post: Post[SingleShot[ServedGraph]], bundle: Bundle, opener: ModelOpener
) -> Seat[SingleShot[ServedGraph]]:
    """The same for a plain graph."""

    def open_beside(
        bundle: Bundle, _: str | None, names: tuple[str, ...], before: SingleShot[ServedGraph], spare: SpareTime
    ) -> SingleShot[ServedGraph]:
        isolation = isolation_of(bundle, opener.isolate, opener.isolation)
        spare.pause()
        model = open_served_graph(bundle, threads=opener.threads, isolation=isolation, turn=spare.turn)
        make = partial(make_graph_shot, model, before.settings, before.metrics, before.clock, names)
        return _or_closed(model.session.close, make)

    return Seat("infer", post, bundle, open_beside)


def _or_closed(close: Callable[[], None], make: Callable[[], T]) -> T:
    """What is made of something open, which is closed if that fails."""
    try:
        return make()
    except BaseException:
        close()
        raise
