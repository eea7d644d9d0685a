"""What the metrics show of an engine's process."""

from __future__ import annotations

from chipwise.engine.restarts import Restarts
from chipwise.serve.metrics import Metrics


def expose_process(metrics: Metrics, process: Restarts) -> None:
    """Let the metrics show whether the engine's process is up.

    Args:
        metrics: The server's metrics.
        process: The engine's process.
    """
    metrics.watch("chipwise_engine_up", "Whether the engine's process answers.", lambda: float(process.state == "up"))
    metrics.tally("chipwise_engine_restarts", "Processes that took the place of a lost one.", lambda: process.restarts)
