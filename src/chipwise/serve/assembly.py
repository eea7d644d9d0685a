"""Putting together what one server serves: a language model, an encoder, or both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from chipwise.serve.crew import Crew, Worker
from chipwise.serve.http.embeddings import Embeddings, embedding_stage
from chipwise.serve.http.keys import Keys
from chipwise.serve.http.service import Service
from chipwise.serve.http.single_shot import SingleShot
from chipwise.serve.http.site import Site
from chipwise.serve.job_metrics import JobMetrics
from chipwise.serve.metrics import Metrics
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.served_encoder import ServedEncoder
from chipwise.serve.served_model import ServedModel
from chipwise.serve.settings import ServeSettings


@dataclass(frozen=True)
class Served:
    """The open models of a server.

    Attributes:
        chat: The language model; None if there is none.
        encoder: The encoder; None if there is none.
    """

    chat: ServedModel | None = None
    encoder: ServedEncoder | None = None

    def close(self) -> None:
        """Give the memory of all back."""
        if self.chat is not None:
            self.chat.session.close()
            if self.chat.fallback is not None:
                self.chat.fallback.close()
        if self.encoder is not None:
            self.encoder.session.close()


def make_site(
    settings: ServeSettings,
    chat: Service | None,
    served: Served,
    *,
    keys: Keys | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Site:
    """What is behind the routes. Nothing is started.

    Args:
        settings: The server's settings.
        chat: The language model's service; None if none is served.
        served: The open models.
        keys: Who may ask; None lets everybody.
        clock: The time in seconds.
    """
    metrics = Metrics() if chat is None else chat.metrics
    workers: list[Worker] = [] if chat is None else [chat.loop]
    counts = JobMetrics(metrics, ("embeddings",) if served.encoder is not None else ())

    def shot(kind: str, *stages: Stage) -> SingleShot:
        pipeline = Pipeline(kind, stages, max_waiting=max(1, settings.max_waiting))
        workers.append(pipeline)
        return SingleShot(kind, pipeline, counts, clock, settings.request_timeout_s)

    embeddings = None
    if served.encoder is not None:
        embeddings = Embeddings(served.encoder, shot("embeddings", embedding_stage(served.encoder.encoder)), settings)
    return Site(metrics, Crew(workers), keys, chat, embeddings)
