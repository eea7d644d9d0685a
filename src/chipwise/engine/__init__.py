"""Engines: runtimes that hold a model's weights and KV cache and run one step at a time."""

from __future__ import annotations

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.session import Engine, Session

__all__ = ["Batch", "Engine", "Session", "StepOutput"]
