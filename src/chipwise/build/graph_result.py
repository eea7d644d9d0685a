"""GraphResult: what the build of a graph that is no decoder came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipwise.build.graph_trial import GraphTrial
from chipwise.build.repair import Bench
from chipwise.build.samples import Samples
from chipwise.model.model import Model
from chipwise.report import Finding
from chipwise.report.report import RewriteStep
from chipwise.target import Target


@dataclass(frozen=True)
class GraphResult:
    """What a graph's build came to.

    Attributes:
        target: The target.
        model: The model.
        samples: What it was calibrated and verified on.
        findings: What the checks found.
        rewrites: What was rewritten, and the proofs.
        trials: The recipes tried; the last one is kept.
        why_emulated: Why a chip is emulated, where it is.
        benches: What was tried of each recipe, in the order of ``trials``.
    """

    target: Target
    model: Model
    samples: Samples
    findings: tuple[Finding, ...]
    rewrites: tuple[RewriteStep, ...]
    trials: Sequence[GraphTrial]
    why_emulated: str = ""
    benches: Sequence[Bench] = ()

    @property
    def chosen(self) -> GraphTrial:
        """The recipe that is kept."""
        return self.trials[-1]
