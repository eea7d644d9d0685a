"""Quality: how the candidate's answers compare with the reference's, as verification measured them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Labels = dict[str, str]
Interval = tuple[float, float]


@dataclass(frozen=True)
class DriftSummary:
    """How far the candidate's next-token distributions lie from the reference's, over some token positions.

    All is NaN where no position was finite on both sides.

    Attributes:
        positions: Positions compared, those with a NaN or infinity included.
        kl_mean_nats: Mean of KL(reference || candidate) over the finite positions; likewise the next three.
        kl_median_nats: Median.
        kl_p95_nats: 95th percentile.
        kl_max_nats: Largest.
        top1_agreement: Share of all positions where both choose the same token; a non-finite one counts as a miss.
        perplexity_reference: The reference's perplexity on the tokens, at the finite positions.
        perplexity_candidate: The candidate's on the same tokens at the same positions.
        nonfinite_reference: Positions where the reference's logits hold a NaN or infinity.
        nonfinite_candidate: The candidate's.
        kl_mean_interval: Interval of 95 % of the mean divergence, by bootstrap over cases; None if it was not computed.
    """

    positions: int
    kl_mean_nats: float
    kl_median_nats: float
    kl_p95_nats: float
    kl_max_nats: float
    top1_agreement: float
    perplexity_reference: float
    perplexity_candidate: float
    nonfinite_reference: int
    nonfinite_candidate: int
    kl_mean_interval: Interval | None = None

    @property
    def perplexity_ratio(self) -> float:
        """The candidate's perplexity over the reference's."""
        return self.perplexity_candidate / self.perplexity_reference


@dataclass(frozen=True)
class KlHistogram:
    """Positions by their KL divergence.

    Attributes:
        edges_nats: Bin edges, one more than bins. The first bin also counts what lies below, the last what lies above.
        prompt: Positions a bin that predict a prompt token.
        answer: Positions a bin that predict an answer token.
    """

    edges_nats: tuple[float, ...]
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class AnswerPosition:
    """Drift at one place in the answer, over all cases that reach it.

    Attributes:
        index: The answer token's number, from 0.
        cases: Cases whose answer is that long and finite there.
        kl_mean_nats: Mean KL divergence there.
        top1_agreement: Share of those cases where both choose the same token.
    """

    index: int
    cases: int
    kl_mean_nats: float
    top1_agreement: float


@dataclass(frozen=True)
class SelfCheck:
    """One session against itself: the whole text in one shape, and token by token in the other.

    Attributes:
        session: ``reference`` or ``candidate``.
        positions: Positions compared.
        kl_mean_nats: Mean KL divergence between the two shapes; it must be close to zero.
        kl_max_nats: The largest.
        top1_agreement: Share of positions where both shapes choose the same token.
    """

    session: str
    positions: int
    kl_mean_nats: float
    kl_max_nats: float
    top1_agreement: float


@dataclass(frozen=True)
class Fidelity:
    """Keyword fidelity: the share of cases whose answer reproduces every keyword.

    Attributes:
        label: Which cases: ``all``, or a label such as ``lang=zh``.
        scored: Cases that have keywords.
        reference: The reference's share; None if none ran.
        candidate: The candidate's share.
        broke: Cases the reference gets right and the candidate wrong.
        fixed: Cases the candidate gets right and the reference wrong.
    """

    label: str
    scored: int
    reference: float | None
    candidate: float
    broke: int = 0
    fixed: int = 0

    @property
    def drop(self) -> float:
        """What the candidate lost against the reference; NaN if none ran."""
        # By counts: 0.97 - 0.94 is more than 0.03 in binary.
        return float("nan") if self.reference is None else (self.broke - self.fixed) / self.scored


@dataclass(frozen=True)
class DimensionScore:
    """One row of the domain matrix. All intervals are two-sided and hold with 95 % confidence.

    Attributes:
        dimension: ``keyword``, ``logic``, ``long_range`` or ``noise``.
        label: Which of its cases: ``all``, or a label such as ``lang=zh``.
        scored: Cases scored.
        reference: Cases the reference has right; None if none ran. So are the next two and the loss.
        reference_share: Interval of its share (Wilson).
        candidate: Cases the candidate has right.
        candidate_share: Interval of its share.
        broke: Cases the reference has right and the candidate wrong.
        fixed: Cases the candidate has right and the reference wrong.
        loss: Interval of the share lost, of paired cases (Tango's score interval).
        flips_p: Mid-p value of McNemar's test that cases flip as often one way as the other.
    """

    dimension: str
    label: str
    scored: int
    reference: int | None
    reference_share: Interval | None
    candidate: int
    candidate_share: Interval
    broke: int = 0
    fixed: int = 0
    loss: Interval | None = None
    flips_p: float | None = None

    @property
    def drop(self) -> float:
        """The share lost against the reference; NaN if none ran."""
        return float("nan") if self.reference is None else (self.broke - self.fixed) / self.scored


@dataclass(frozen=True)
class SemanticDrift:
    """The semantic drift index (SDI): 1 less the cosine of the sentence embeddings of both answers to a case.

    Attributes:
        model: The embedding model.
        cases: Cases compared; answers of the same text count with 0.
        mean: Mean of the index.
        mean_interval: Its interval of 95 %, by bootstrap over cases.
        p95: 95th percentile.
        max: The largest.
        blind: Cases whose answers differ and look the same to the embedding model: it drops what it does not know.
        unknown_tokens: Share of the changed answers' tokens that the model does not know.
    """

    model: str
    cases: int
    mean: float
    mean_interval: Interval
    p95: float
    max: float
    blind: int = 0
    unknown_tokens: float = 0.0


@dataclass(frozen=True)
class CaseResult:
    """One case, both answers and how they differ.

    Attributes:
        id: The case's name.
        prompt: What was asked, as the user wrote it.
        expected: The right answer, if the suite names one.
        reference_answer: The reference's answer; None if none ran.
        candidate_answer: The candidate's answer.
        missing_reference: What the reference's answer lacks or has wrong; None if the case is not scored.
        missing_candidate: What the candidate's answer lacks or has wrong; None likewise.
        kl_mean_nats: Mean KL divergence over the reference's answer; None if no reference ran.
        top1_agreement: Share of the reference's answer tokens the candidate would choose too; None likewise.
        finite: False if any logit of either side was NaN or infinite on the way.
        labels: The case's labels (``lang``, ``domain``, ``kind``).
        dimension: What it is a case of: ``keyword``, ``logic``, ``long_range``, ``noise``; None if it is not scored.
        sdi: Semantic drift of the candidate's answer; None if it was not computed.
    """

    id: str
    prompt: str
    expected: str | None
    reference_answer: str | None
    candidate_answer: str
    missing_reference: tuple[str, ...] | None = None
    missing_candidate: tuple[str, ...] | None = None
    kl_mean_nats: float | None = None
    top1_agreement: float | None = None
    finite: bool = True
    labels: Labels = field(default_factory=dict)
    dimension: str | None = None
    sdi: float | None = None

    @property
    def changed(self) -> bool:
        """Whether the candidate's answer is another text than the reference's."""
        return self.reference_answer is not None and self.reference_answer != self.candidate_answer

    @property
    def broke(self) -> bool:
        """Whether the reference answers right and the candidate does not."""
        return self.missing_reference == () and bool(self.missing_candidate)


@dataclass(frozen=True)
class Quality:
    """All that verification measured.

    Attributes:
        cases: Every case that ran.
        fidelity: Keyword fidelity of all cases first, then a label; empty if no case has keywords.
        answer: Drift over answer tokens; None if no reference ran. So are the rest.
        prompt: Drift over prompt tokens.
        histogram: Positions by KL divergence.
        by_position: Drift along the answer.
        self_checks: Each session against itself.
        not_run: The cases that did not run, because they do not fit the context.
        matrix: The dimensions, each with all its cases first, then by label; empty if no case is scored.
        semantic: Drift of the answers' meaning; None if it was not computed.
        prompts_differ: Cases that reference and candidate put in different tokens. If there are any, each side answers
            its own prompts, and there is no drift to measure a token.
    """

    cases: tuple[CaseResult, ...]
    fidelity: tuple[Fidelity, ...] = ()
    answer: DriftSummary | None = None
    prompt: DriftSummary | None = None
    histogram: KlHistogram | None = None
    by_position: tuple[AnswerPosition, ...] = ()
    self_checks: tuple[SelfCheck, ...] = ()
    not_run: tuple[str, ...] = ()
    matrix: tuple[DimensionScore, ...] = ()
    semantic: SemanticDrift | None = None
    prompts_differ: int = 0

    @property
    def answers_changed(self) -> int:
        """Cases whose answer is another text than the reference's."""
        return sum(case.changed for case in self.cases)

    @property
    def cases_nonfinite(self) -> int:
        """Cases in which a logit of either side was NaN or infinite."""
        return sum(not case.finite for case in self.cases)

    def worst(self, n: int) -> tuple[CaseResult, ...]:
        """The ``n`` cases to look at first: NaN first, then broken, then wrong, then those that drifted most.

        Cases that are right on both sides with the same text are left out.
        """
        suspects = [case for case in self.cases if case.changed or case.missing_candidate or not case.finite]
        suspects.sort(key=_rank)
        return tuple(suspects[:n])

    def drifted(self, n: int) -> tuple[CaseResult, ...]:
        """The ``n`` cases whose answers drifted most in meaning, those that drifted at all."""
        moved = [case for case in self.cases if case.sdi]
        return tuple(sorted(moved, key=lambda case: -(case.sdi or 0.0))[:n])


def _rank(case: CaseResult) -> tuple[bool, bool, bool, float]:
    kl = case.kl_mean_nats or 0.0
    return (case.finite, not case.broke, not case.missing_candidate, 0.0 if math.isnan(kl) else -kl)
