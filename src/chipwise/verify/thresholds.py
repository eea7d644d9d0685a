"""Thresholds: what a candidate must hold, and what the user sets of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from chipwise.errors import InputError

METRICS = {
    "keyword": "keyword_fidelity",
    "logic": "logical_consistency",
    "long_range": "long_range_recall",
    "noise": "noise_robustness",
}
"""What a dimension's share of right answers is called."""


@dataclass(frozen=True)
class Thresholds:
    """What a candidate must hold. The defaults are for 4-bit weights; ``for_weight_bits`` gives those of other widths.

    Attributes:
        kl_mean_nats: Mean KL divergence over answer tokens, at most.
        top1_agreement: Share of answer tokens both would choose, at least.
        perplexity_ratio: The candidate's perplexity over the reference's on the reference's answers, at most.
        keyword_fidelity_drop: Keyword fidelity lost against the reference, at most (0.03 is 3 points).
        logical_consistency_drop: The same of logical consistency.
        long_range_recall_drop: The same of facts from the beginning of long records.
        noise_robustness_drop: The same of answers to noisy inputs.
        keyword_fidelity: Keyword fidelity of a candidate that is judged without a reference, at least.
        logical_consistency: Likewise.
        long_range_recall: Likewise.
        noise_robustness: Likewise.
        keyword_fidelity_reference: The reference's own keyword fidelity, at least. A suite that the reference fails
            cannot show what the candidate lost.
        logical_consistency_reference: Likewise.
        long_range_recall_reference: Likewise.
        noise_robustness_reference: Likewise.
        certainty: How sure a verdict on a dimension must be; 0 lets the measured value decide, however few the cases.
        sdi_mean: Mean semantic drift index, at most. It is 2 at most, which asks for nothing.
        self_check_reference_nats: The reference against itself in both shapes, mean KL divergence, at most.
        self_check_candidate_nats: The candidate against itself. Kernels for one token and for many may quantize
            activations differently, so that shapes differ by more than rounding.
        cases_nonfinite: Cases with a NaN or infinity on either side, at most.
        cases_not_run: Cases that do not fit the context, at most.
    """

    kl_mean_nats: float = 0.10
    top1_agreement: float = 0.90
    perplexity_ratio: float = 1.10
    keyword_fidelity_drop: float = 0.03
    logical_consistency_drop: float = 0.03
    long_range_recall_drop: float = 0.03
    noise_robustness_drop: float = 0.03
    keyword_fidelity: float = 0.90
    logical_consistency: float = 0.90
    long_range_recall: float = 0.90
    noise_robustness: float = 0.90
    keyword_fidelity_reference: float = 0.50
    logical_consistency_reference: float = 0.50
    long_range_recall_reference: float = 0.50
    noise_robustness_reference: float = 0.50
    certainty: float = 0.95
    sdi_mean: float = 2.0
    self_check_reference_nats: float = 1e-3
    self_check_candidate_nats: float = 0.01
    cases_nonfinite: float = 0
    cases_not_run: float = 0

    @classmethod
    def for_weight_bits(cls, bits: int) -> Thresholds:
        """The defaults for weights of some width; see docs/verification.md for what they rest on."""
        if bits >= 16:
            return cls(kl_mean_nats=0.005, top1_agreement=0.98, perplexity_ratio=1.01, **_drops(0.01))
        if bits >= 8:
            return cls(kl_mean_nats=0.03, top1_agreement=0.95, perplexity_ratio=1.03, **_drops(0.02))
        return cls()

    def with_overrides(self, values: Mapping[str, float]) -> Thresholds:
        """These thresholds with some set by the user.

        Raises:
            InputError: A name is no threshold's, or a value is no number.
        """
        check_overrides(values, [field.name for field in fields(self)])
        return replace(self, **values)

    def to_dict(self) -> dict[str, float]:
        """The thresholds by name."""
        return asdict(self)


# Parts of the names of thresholds that are shares.
_SHARES = ("agreement", "fidelity", "consistency", "recall", "robustness", "cosine", "certainty")


def _drops(most: float) -> dict[str, float]:
    return {f"{metric}_drop": most for metric in METRICS.values()}


def parse_overrides(texts: Sequence[str]) -> dict[str, float]:
    """The thresholds of ``NAME=VALUE`` texts, as a command line gives them.

    Raises:
        InputError: A text is not of that form.
    """
    values = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            values[name.strip()] = float(number)
        except ValueError as e:
            raise InputError(f"--gate {text!r} is not NAME=VALUE", remedy="write e.g. --gate kl_mean_nats=0.2") from e
    return values


def check_overrides(values: Mapping[str, float], names: Sequence[str]) -> None:
    """Check that thresholds which the user sets are among those there are, and numbers.

    Raises:
        InputError: One is not.
    """
    for name, value in values.items():
        if name not in names:
            raise InputError(f"no threshold named {name!r}", remedy=f"there are {', '.join(names)}")
        if not math.isfinite(value) or value < 0:
            raise InputError(
                f"the threshold {name} is {value}, not a number from 0 on",
                remedy="give one, e.g. 0.05; a large one such as 1e9 asks for nothing",
            )
        if value > 1 and any(part in name for part in _SHARES):
            raise InputError(f"the threshold {name} is {value}, above 1", remedy="it is a share, e.g. 0.95")
        if name == "certainty" and value == 1:
            raise InputError("no number of cases makes anything certain", remedy="give a certainty below 1, e.g. 0.99")
