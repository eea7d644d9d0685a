"""DecoderResult: what a decoder's build came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipwise.build.fallback import BuiltFallback
from chipwise.build.texts import Texts
from chipwise.build.trial import Trial
from chipwise.model.config import DecoderConfig
from chipwise.model.model import Model
from chipwise.report import Finding
from chipwise.report.attribution import Attribution
from chipwise.report.report import NotRun, RewriteStep
from chipwise.target import Target


@dataclass(frozen=True)
class DecoderResult:
    """What a decoder's build came to.

    Attributes:
        target: The target.
        model: The model.
        config: Its architecture.
        context: The longest context the graphs take, in tokens.
        texts: What it was calibrated and verified on.
        findings: What the checks found.
        rewrites: What was rewritten, and the proofs.
        trials: The recipes tried; the last one is kept.
        why_emulated: Why it is not compiled for a chip, and what to do about it.
        attribution: Which layers the damage comes from, or why that is not known; None unless the gate failed.
        fallback: The second engine's graph; None if none was asked for.
    """

    target: Target
    model: Model
    config: DecoderConfig
    context: int
    texts: Texts
    findings: tuple[Finding, ...]
    rewrites: tuple[RewriteStep, ...]
    trials: Sequence[Trial]
    why_emulated: str = ""
    attribution: Attribution | NotRun | None = None
    fallback: BuiltFallback | None = None

    @property
    def chosen(self) -> Trial:
        """The recipe that is kept."""
        return self.trials[-1]
