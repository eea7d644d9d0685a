"""Putting what answers in one run behind its route."""

from __future__ import annotations

import time
from collections.abc import Callable

from chipwise.engine.restarts import HasProcess
from chipwise.serve.api.embeddings import embedding_stage
from chipwise.serve.http.single_shot import M, SingleShot
from chipwise.serve.inference.stages import inference_stages
from chipwise.serve.models.served_encoder import ServedEncoder
from chipwise.serve.models.served_graph import ServedGraph
from chipwise.serve.observe.job_metrics import JobMetrics
from chipwise.serve.pipeline.pipeline import Pipeline
from chipwise.serve.pipeline.stage import Stage
from chipwise.serve.settings import ServeSettings

Clock = Callable[[], float]


def make_encoder_shot(
    model: ServedEncoder,
    settings: ServeSettings,
    counts: JobMetrics,
    clock: Clock = time.monotonic,
    names: tuple[str, ...] = (),
) -> SingleShot[ServedEncoder]:
    """Put an encoder behind ``/v1/embeddings``. Its threads are not started.

    Args:
        model: The encoder.
        settings: The server's settings.
        counts: What is counted.
        clock: The time in seconds.
        names: What requests may call it, the one for lists first; its own name if there are none.
    """
    return _shot("embeddings", model, (embedding_stage(model.encoder),), settings, counts, clock, names)


def make_graph_shot(
    model: ServedGraph,
    settings: ServeSettings,
    counts: JobMetrics,
    clock: Clock = time.monotonic,
    names: tuple[str, ...] = (),
) -> SingleShot[ServedGraph]:
    """Put a plain graph behind ``/v1/infer``. The arguments are those of ``make_encoder_shot``."""
    stages = inference_stages(model.name, model.session, model.inputs, model.shapes)
    return _shot("infer", model, stages, settings, counts, clock, names)


def _shot(
    kind: str,
    model: M,
    stages: tuple[Stage, ...],
    settings: ServeSettings,
    counts: JobMetrics,
    clock: Clock,
    names: tuple[str, ...],
) -> SingleShot[M]:
    process = model.session if isinstance(model.session, HasProcess) else None
    pipeline = Pipeline(kind, stages, max_waiting=max(1, settings.max_waiting), process=process)
    return SingleShot(kind, model, pipeline, counts, clock, settings, names or (model.name,))
