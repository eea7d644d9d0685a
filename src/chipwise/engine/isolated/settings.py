"""Isolation: how the process of an engine is watched and replaced."""

from __future__ import annotations

from dataclasses import dataclass, field

from chipwise.engine.isolated.backoff import BackoffRules


@dataclass(frozen=True)
class Isolation:
    """How an engine's process is kept.

    Attributes:
        step_timeout_s: A step that takes longer counts as a hang; None lets what steps took decide (``StepLimit``).
        start_timeout_s: How long the first start may take, self-test included.
        patience_s: How long a restart may keep requests waiting before the engine counts as down, at least.
        patience_factor: So many times the first start, if that is longer.
        backoff: How long to wait between starts.
    """

    step_timeout_s: float | None = None
    start_timeout_s: float = 600.0
    patience_s: float = 30.0
    patience_factor: float = 3.0
    backoff: BackoffRules = field(default_factory=BackoffRules)
