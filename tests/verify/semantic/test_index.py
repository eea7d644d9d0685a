from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from chipwise.report.quality import CaseResult, Quality
from chipwise.verify.gate import judge
from chipwise.verify.semantic.embedder import Embedded
from chipwise.verify.semantic.index import with_semantic_drift
from chipwise.verify.thresholds import Thresholds


class Letters:
    """Embeds a text as the unit vector of its letter counts; knows no Chinese."""

    name = "letters"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.seen += texts
        tokens = [tuple(ord(c) - 96 if c in "abcdefgh" else 0 for c in text) for text in texts]
        vectors = np.array([np.bincount(one, minlength=9) for one in tokens], np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        unknown = sum(token == 0 for one in tokens for token in one) / sum(map(len, tokens))
        return Embedded(vectors, tuple(tokens), unknown)


def case(before: str | None, after: str) -> CaseResult:
    return CaseResult(f"{before}-{after}", "q", None, before, after)


def test_the_index_is_one_less_the_cosine() -> None:
    letters = Letters()
    cases = (case("a", "a"), case("a", "b"), case("ab", "a"), case("b", "b"))
    found = with_semantic_drift(Quality(cases), letters)
    assert [c.sdi for c in found.cases] == pytest.approx([0, 1, 1 - 0.5**0.5, 0], abs=1e-6)
    assert found.semantic is not None
    assert found.semantic.cases == 4
    assert found.semantic.mean == pytest.approx((2 - 0.5**0.5) / 4, abs=1e-6)
    assert found.semantic.mean_interval[0] < found.semantic.mean < found.semantic.mean_interval[1]
    assert found.semantic.max == pytest.approx(1, abs=1e-6)
    assert found.semantic.p95 < 1
    assert sorted(letters.seen) == ["a", "ab", "b"]
    assert [c.id for c in found.drifted(5)] == ["a-b", "ab-a"]
    assert [c.id for c in found.drifted(1)] == ["a-b"]


def test_answers_that_the_model_cannot_tell_apart_are_counted() -> None:
    found = with_semantic_drift(Quality((case("开灯", "关灯"),)), Letters()).semantic
    assert found is not None
    assert (found.mean, found.blind, found.unknown_tokens) == (0.0, 1, 1.0)


def test_nothing_changed_needs_no_model() -> None:
    letters = Letters()
    found = with_semantic_drift(Quality((case("a", "a"),)), letters)
    assert letters.seen == []
    assert found.semantic is not None
    assert (found.semantic.mean, found.semantic.max) == (0, 0)


def test_without_a_reference_there_is_no_drift() -> None:
    alone = Quality((case(None, "a"),))
    assert with_semantic_drift(alone, Letters()) is alone
    assert with_semantic_drift(Quality(()), Letters()).semantic is None


def test_it_is_judged_only_if_the_user_asks() -> None:
    found = with_semantic_drift(Quality((case("a", "b"),)), Letters())
    assert "sdi_mean" not in {verdict.metric for verdict in judge(found, Thresholds())}
    (verdict,) = [v for v in judge(found, Thresholds(sdi_mean=0.1)) if v.metric == "sdi_mean"]
    assert verdict.outcome == "fail"
