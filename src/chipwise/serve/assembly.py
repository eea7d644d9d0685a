"""Putting together what one server serves: a language model, an encoder, a plain graph, or several of these."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chipwise.bundle import Bundle, open_bundle
from chipwise.engine.graph_session import GraphSession
from chipwise.engine.isolated import Isolation
from chipwise.engine.restarts import HasProcess
from chipwise.errors import InputError
from chipwise.serve.crew import Crew, Worker
from chipwise.serve.exchange import Exchange
from chipwise.serve.http.embeddings import Embeddings, embedding_stage
from chipwise.serve.http.infer import Inference
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.http.site import Site
from chipwise.serve.inference.regions import Regions
from chipwise.serve.inference.stages import inference_stages
from chipwise.serve.isolation_rule import isolation_of
from chipwise.serve.job_metrics import JobMetrics
from chipwise.serve.metrics import Metrics
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.post import Post
from chipwise.serve.rung import Variant
from chipwise.serve.served_encoder import ServedEncoder, holds_encoder, open_encoder
from chipwise.serve.served_graph import ServedGraph, holds_graph, open_served_graph
from chipwise.serve.served_model import ServedModel
from chipwise.serve.settings import ServeSettings
from chipwise.serve.tracing import open_tracing


@dataclass(frozen=True)
class Served:
    """The open models of a server.

    Attributes:
        chat: The language model; None if there is none.
        encoder: The encoder; None if there is none.
        graph: The plain graph; None if there is none.
        variants: Other forms of the language model that it can be exchanged for.
    """

    chat: ServedModel | None = None
    encoder: ServedEncoder | None = None
    graph: ServedGraph | None = None
    variants: tuple[Variant, ...] = ()

    @property
    def beside(self) -> frozenset[str]:
        """The names of those beside the language model."""
        return frozenset(model.name for model in (self.encoder, self.graph) if model is not None)

    def close_single_shots(self) -> None:
        """Give the memory of those beside the language model back."""
        if self.encoder is not None:
            self.encoder.session.close()
        if self.graph is not None:
            self.graph.session.close()


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
    return Served(None, encoder, graph)


def make_site(
    settings: ServeSettings,
    chat: Post | None,
    served: Served,
    *,
    keys: Keys | None = None,
    exchange: Exchange | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Site:
    """What is behind the routes. Nothing is started.

    Args:
        settings: The server's settings.
        chat: The language model's post; None if none is served.
        served: The open models.
        keys: Who may ask; None lets everybody.
        exchange: What exchanges the language model; None if nothing does.
        clock: The time in seconds.

    Raises:
        InputError: Traces cannot be sent to where the settings say, or nothing takes tensors in shared memory.
    """
    metrics = Metrics() if chat is None else chat.current.metrics
    workers: list[Worker] = [] if chat is None else [chat]
    if settings.shared_memory and served.graph is None:
        raise InputError("no plain graph is served", where="--shared-memory", remedy="leave it out, or add --infer")
    kinds = {"embeddings": served.encoder, "infer": served.graph}
    counts = JobMetrics(metrics, tuple(kind for kind, model in kinds.items() if model is not None))

    def shot(kind: str, session: GraphSession, *stages: Stage) -> SingleShot:
        process = session if isinstance(session, HasProcess) else None
        pipeline = Pipeline(kind, stages, max_waiting=max(1, settings.max_waiting), process=process)
        workers.append(pipeline)
        return SingleShot(kind, pipeline, counts, clock, settings.request_timeout_s)

    embeddings = inference = None
    if served.encoder is not None:
        encoder = served.encoder
        stage = embedding_stage(encoder.encoder)
        embeddings = Embeddings(encoder, shot("embeddings", encoder.session, stage), settings)
    if served.graph is not None:
        graph = served.graph
        inference = Inference(
            graph,
            shot("infer", graph.session, *inference_stages(graph.name, graph.session, graph.inputs, graph.shapes)),
            settings,
            Regions() if settings.shared_memory else None,
        )
    endpoint = settings.otlp_traces_endpoint
    tracing = None if endpoint is None else open_tracing(endpoint)
    return Site(metrics, Crew(workers), keys, chat, embeddings, inference, exchange, settings, tracing)
