"""Scores: from answers and a comparison to the Quality that a report shows and a gate judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chipwise.model.tokenizer import Tokenizer
from chipwise.report.quality import CaseResult, Fidelity, Quality
from chipwise.verify.case import Case
from chipwise.verify.certainty.bootstrap import bootstrap_mean
from chipwise.verify.compare import CaseComparison, Comparison
from chipwise.verify.generate import Answer
from chipwise.verify.matrix import domain_matrix
from chipwise.verify.metrics import PositionDrift, along_answer, concatenate, histogram, summarise


def score_comparison(cases: Sequence[Case], comparison: Comparison, tokenizer: Tokenizer) -> Quality:
    """Score both sides.

    Args:
        cases: The suite's cases, in the order their prompts were compared.
        comparison: What ``compare`` gave.
        tokenizer: The tokenizer of both.
    """
    ran = [cases[done.index] for done in comparison.cases]
    texts = [
        (answer_text(done.reference, tokenizer), answer_text(done.candidate, tokenizer)) for done in comparison.cases
    ]
    before = _misses(ran, [reference for reference, _ in texts])
    after = _misses(ran, [candidate for _, candidate in texts])
    results = tuple(
        replace(_compared(case, done, *answers), missing_reference=one, missing_candidate=other)
        for case, done, answers, one, other in zip(ran, comparison.cases, texts, before, after, strict=True)
    )
    answers = [done.answer for done in comparison.cases]
    prompt, answer = concatenate([done.prompt for done in comparison.cases]), concatenate(answers)
    return Quality(
        cases=results,
        fidelity=_fidelity(results),
        matrix=domain_matrix(results),
        answer=replace(summarise(answer), kl_mean_interval=_kl_interval(answers)),
        prompt=summarise(prompt),
        histogram=histogram(prompt, answer),
        by_position=along_answer(answers),
        self_checks=comparison.self_checks,
        not_run=tuple(cases[i].id for i in comparison.too_long),
    )


def _kl_interval(answers: Sequence[PositionDrift]) -> tuple[float, float] | None:
    """The interval of the mean divergence over tokens; whole cases are drawn, for tokens of one drift together."""
    finite = [answer.kl_nats[np.isfinite(answer.kl_nats)] for answer in answers]
    if not sum(map(len, finite)):
        return None
    return bootstrap_mean([float(kl.sum()) for kl in finite], [len(kl) for kl in finite])


def score_answers(
    cases: Sequence[Case], answers: Sequence[Answer], tokenizer: Tokenizer, *, not_run: Sequence[str] = ()
) -> Quality:
    """Score the candidate alone, where there is no reference.

    Args:
        cases: The cases that ran.
        answers: The answer to each.
        tokenizer: The candidate's tokenizer.
        not_run: The names of those that did not.
    """
    texts = [answer_text(answer, tokenizer) for answer in answers]
    return score_texts(cases, texts, finite=[answer.finite for answer in answers], not_run=not_run)


def score_texts(
    cases: Sequence[Case],
    candidate: Sequence[str],
    *,
    reference: Sequence[str] | None = None,
    finite: Sequence[bool] | None = None,
    not_run: Sequence[str] = (),
) -> Quality:
    """Score answers of which nothing but their text is known.

    Args:
        cases: The cases that ran.
        candidate: The answer to each.
        reference: The reference's answers, if there are any.
        finite: Whether the logits behind each were; None if that is not known.
        not_run: The names of the cases that did not run.
    """
    after = _misses(cases, candidate)
    before = _misses(cases, reference) if reference is not None else [None] * len(cases)
    results = tuple(
        CaseResult(
            id=case.id,
            prompt=case.text,
            expected=case.expected,
            reference_answer=None if reference is None else reference[i],
            candidate_answer=candidate[i],
            missing_reference=before[i],
            missing_candidate=after[i],
            finite=finite is None or finite[i],
            labels=dict(case.labels),
            dimension=case.dimension,
        )
        for i, case in enumerate(cases)
    )
    return Quality(cases=results, fidelity=_fidelity(results), matrix=domain_matrix(results), not_run=tuple(not_run))


def answer_text(answer: Answer, tokenizer: Tokenizer) -> str:
    """The text of an answer, without its end token and outer white space."""
    tokens = list(answer.tokens)
    if tokens and tokens[-1] in tokenizer.special.eos_ids:
        del tokens[-1]
    return tokenizer.decode(tokens).strip()


def _misses(cases: Sequence[Case], texts: Sequence[str]) -> list[tuple[str, ...] | None]:
    """What is wrong with each answer of one side; a noise case is seen beside that side's answer to its clean twin."""
    said = {case.id: text for case, text in zip(cases, texts, strict=True)}
    return [
        case.misses(text, said.get(case.clean) if case.clean else None) for case, text in zip(cases, texts, strict=True)
    ]


def _compared(case: Case, done: CaseComparison, reference: str, candidate: str) -> CaseResult:
    parts = (done.prompt, done.answer)
    finite = all(bool(p.finite_reference.all() and p.finite_candidate.all()) for p in parts)
    return CaseResult(
        id=case.id,
        prompt=case.text,
        expected=case.expected,
        reference_answer=reference,
        candidate_answer=candidate,
        dimension=case.dimension,
        # The plain mean: one NaN makes it NaN, as it should.
        kl_mean_nats=float(done.answer.kl_nats.mean()),
        top1_agreement=float(done.answer.agree.mean()),
        finite=finite and done.reference.finite and done.candidate.finite,
        labels=dict(case.labels),
    )


def _fidelity(results: Sequence[CaseResult]) -> tuple[Fidelity, ...]:
    scored = [case for case in results if case.dimension == "keyword" and case.missing_candidate is not None]
    if not scored:
        return ()
    groups: dict[str, list[CaseResult]] = {"all": scored}
    for name in sorted({name for case in scored for name in case.labels}):
        for case in sorted(scored, key=lambda c: c.labels.get(name, "")):
            if name in case.labels:
                groups.setdefault(f"{name}={case.labels[name]}", []).append(case)
    return tuple(_share(label, group) for label, group in groups.items())


def _share(label: str, group: Sequence[CaseResult]) -> Fidelity:
    compared = all(case.missing_reference is not None for case in group)
    return Fidelity(
        label=label,
        scored=len(group),
        reference=sum(not case.missing_reference for case in group) / len(group) if compared else None,
        candidate=sum(not case.missing_candidate for case in group) / len(group),
        broke=sum(case.broke for case in group),
        fixed=sum(bool(case.missing_reference) and not case.missing_candidate for case in group),
    )
