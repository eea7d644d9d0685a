"""QualityCost: what a quantized model loses against the unquantized one, as its verification measured it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from chipwise.report import Verdict
from chipwise.report.verdict import Outcome, together

_KL, _AGREEMENT = "kl_mean_nats", "top1_agreement"


@dataclass(frozen=True)
class QualityCost:
    """What a model loses.

    Attributes:
        kl_mean_nats: Mean KL divergence of its next tokens from the unquantized model's.
        top1_agreement: Share of next tokens that both choose.
        gate: What the gate said of all its verdicts.
    """

    kl_mean_nats: float
    top1_agreement: float
    gate: Outcome

    def __str__(self) -> str:
        """In words."""
        share = f"{self.top1_agreement:.1%} of next tokens"
        return f"KL {self.kl_mean_nats:.3g} nats, {share}, gate {self.gate}"


def quality_cost(verdicts: Iterable[Verdict]) -> QualityCost | None:
    """What the verdicts of a verification say that a model loses; None if they do not say it."""
    verdicts = tuple(verdicts)
    values = {verdict.metric: verdict.value for verdict in verdicts}
    kl_nats, agreement = values.get(_KL, math.nan), values.get(_AGREEMENT, math.nan)
    if math.isnan(kl_nats) or math.isnan(agreement):
        return None
    return QualityCost(kl_nats, agreement, together(verdicts))
