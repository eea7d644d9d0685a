"""The index itself: 1 less the cosine of two answers' embeddings, a case at a time and over all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chipwise.report.quality import CaseResult, Quality, SemanticDrift
from chipwise.verify.certainty.bootstrap import bootstrap_mean
from chipwise.verify.semantic.embedder import Embedder


def with_semantic_drift(quality: Quality, embedder: Embedder) -> Quality:
    """A quality with the semantic drift of every case whose answers were compared; as it is if there are none.

    Answers of the same text drift by 0; only others are embedded.
    """
    compared = [case for case in quality.cases if case.reference_answer is not None]
    if not compared:
        return quality
    changed = [case for case in compared if case.changed]
    found, blind, unknown = _indices(changed, embedder)
    by_id = {id(case): index for case, index in zip(changed, found, strict=True)}
    cases = tuple(
        replace(case, sdi=by_id.get(id(case), 0.0)) if case.reference_answer is not None else case
        for case in quality.cases
    )
    values = [case.sdi for case in cases if case.sdi is not None]
    return replace(quality, cases=cases, semantic=_summary(embedder.name, values, blind, unknown))


def _indices(changed: Sequence[CaseResult], embedder: Embedder) -> tuple[list[float], int, float]:
    """The index of each case, how many the model cannot tell apart, and the share of tokens it does not know."""
    texts = list(
        dict.fromkeys(text for case in changed for text in (case.reference_answer or "", case.candidate_answer))
    )
    if not texts:
        return [], 0, 0.0
    embedded = embedder.embed(texts)
    at = {text: i for i, text in enumerate(texts)}
    found, blind = [], 0
    for case in changed:
        one, other = at[case.reference_answer or ""], at[case.candidate_answer]
        cosine = float(np.dot(embedded.vectors[one].astype(np.float64), embedded.vectors[other].astype(np.float64)))
        # Rounding leaves two equal vectors a little below or above 1.
        found.append(min(2.0, max(0.0, 1 - cosine)))
        blind += embedded.tokens[one] == embedded.tokens[other]
    return found, blind, embedded.unknown


def _summary(name: str, values: Sequence[float], blind: int, unknown: float) -> SemanticDrift:
    array = np.asarray(values)
    return SemanticDrift(
        model=name,
        cases=len(values),
        mean=float(array.mean()),
        mean_interval=bootstrap_mean(values),
        p95=float(np.percentile(array, 95)),
        max=float(array.max()),
        blind=blind,
        unknown_tokens=unknown,
    )
