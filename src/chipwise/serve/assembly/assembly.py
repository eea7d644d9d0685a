"""Putting together what one server serves: a language model, an encoder, a plain graph, or several of these."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from chipwise.bundle import Bundle, open_bundle
from chipwise.engine.isolated import Isolation
from chipwise.errors import InputError
from chipwise.serve.api.site import Site
from chipwise.serve.assembly.make_shot import make_encoder_shot, make_graph_shot
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.seat import Kind
from chipwise.serve.exchange.service import Service
from chipwise.serve.hardware.rung import Variant, variants_of
from chipwise.serve.http.keys import Keys
from chipwise.serve.inference.regions import Regions
from chipwise.serve.loop.crew import Crew, Worker
from chipwise.serve.models.isolation_rule import isolation_of
from chipwise.serve.models.served_encoder import ServedEncoder, holds_encoder, open_encoder
from chipwise.serve.models.served_graph import ServedGraph, holds_graph, open_served_graph
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.job_metrics import JobMetrics
from chipwise.serve.observe.metrics import Metrics
from chipwise.serve.observe.tracing import open_tracing
from chipwise.serve.settings import ServeSettings
from chipwise.serve.turns.turns import Turns


@dataclass(frozen=True)
class Served:
    """The open models of a server.

    Attributes:
        chat: The language model; None if there is none.
        encoder: The encoder; None if there is none.
        graph: The plain graph; None if there is none.
        variants: Other forms of the language model that it can be exchanged for.
        bundles: Where those that can be exchanged came from.
    """

    chat: ServedModel | None = None
    encoder: ServedEncoder | None = None
    graph: ServedGraph | None = None
    variants: tuple[Variant, ...] = ()
    bundles: Mapping[Kind, Bundle] = field(default_factory=dict)

    def beside(self, chat: ServedModel, bundle: Bundle) -> Served:
        """These beside a language model and what came with it."""
        return replace(self, chat=chat, variants=variants_of(bundle), bundles={"chat": bundle, **self.bundles})


def open_single_shots(
    own: Bundle,
    embeddings: Path | None = None,
    infer: Path | None = None,
    *,
    threads: int | None = None,
    isolate: bool | None = None,
    isolation: Isolation | None = None,
) -> Served:
    """Open what answers in one run: the bundle itself if it is such a model, and those beside it.

    Args:
        own: The bundle that is served.
        embeddings: The bundle of an encoder beside it; None for none.
        infer: The bundle of a plain graph beside it; None for none.
        threads: Threads of each engine; None leaves it to the bundle or the engine.
        isolate: Whether each engine runs in a process of its own; None decides by the engine.
        isolation: How these are kept.

    Raises:
        InputError: Two bundles are for the same route, or have the same name.
        BundleError: A bundle is not sound, or of another kind.
        EngineError: A model cannot be loaded.
    """
    is_encoder, is_graph = holds_encoder(own), holds_graph(own) and not holds_encoder(own)
    for mine, other, option in ((is_encoder, embeddings, "--embeddings"), (is_graph, infer, "--infer")):
        if mine and other is not None:
            raise InputError("both bundles are for the same route", where=option, remedy="leave one of them out")
    encoders = own if is_encoder else None if embeddings is None else open_bundle(embeddings)
    graphs = own if is_graph else None if infer is None else open_bundle(infer)
    names = [bundle.manifest.name for bundle in (None if is_encoder or is_graph else own, encoders, graphs) if bundle]
    if len(set(names)) < len(names):
        raise InputError(f"two bundles are named {names[-1]!r}", remedy="serve each in a server of its own")
    encoder = graph = None
    if encoders is not None:
        kept = isolation_of(encoders, isolate, isolation)
        encoder = open_encoder(encoders, threads=threads, isolation=kept)
    if graphs is not None:
        kept = isolation_of(graphs, isolate, isolation)
        graph = open_served_graph(graphs, threads=threads, isolation=kept)
    bundles: dict[Kind, Bundle | None] = {"embeddings": encoders, "infer": graphs}
    found = {kind: bundle for kind, bundle in bundles.items() if bundle is not None}
    return Served(None, encoder, graph, bundles=found)


def make_site(
    settings: ServeSettings,
    chat: Post[Service] | None,
    served: Served,
    *,
    keys: Keys | None = None,
    turns: Turns | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Site:
    """What is behind the routes. Nothing is started.

    Args:
        settings: The server's settings.
        chat: The language model's post; None if none is served.
        served: The open models.
        keys: Who may ask; None lets everybody.
        turns: The language model's; None if none is served.
        clock: The time in seconds.

    Raises:
        InputError: Traces cannot be sent to where the settings say, or nothing takes tensors in shared memory.
    """
    metrics = Metrics() if chat is None else chat.current.metrics
    encoder, graph = served.encoder, served.graph
    if settings.shared_memory and graph is None:
        raise InputError("no plain graph is served", where="--shared-memory", remedy="leave it out, or add --infer")
    kinds = {"embeddings": encoder, "infer": graph}
    counts = JobMetrics(metrics, tuple(kind for kind, model in kinds.items() if model is not None))
    embeddings = None if encoder is None else Post(make_encoder_shot(encoder, settings, counts, clock), turns)
    inference = None if graph is None else Post(make_graph_shot(graph, settings, counts, clock), turns)
    posts: list[Worker | None] = [chat, embeddings, inference]
    endpoint = settings.otlp_traces_endpoint
    return Site(
        metrics,
        Crew([post for post in posts if post is not None]),
        keys,
        chat,
        embeddings,
        inference,
        settings=settings,
        tracing=None if endpoint is None else open_tracing(endpoint),
        regions=Regions() if settings.shared_memory else None,
    )
