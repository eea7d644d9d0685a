from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.report.quality import CaseResult, Quality
from chipwise.verify.semantic.index import with_semantic_drift
from chipwise.verify.semantic.locate import open_embedder
from tests.model.encoder.conftest import minilm

__all__ = ["minilm"]

pytestmark = pytest.mark.slow


def test_what_means_less_alike_drifts_more(minilm: Path) -> None:
    pairs = [
        ("Turn on the lamp in the kitchen.", "Switch on the kitchen lamp."),
        ("Turn on the lamp in the kitchen.", "The pump in hall 3 has overheated."),
        ("打开灯", "关闭灯"),
    ]
    cases = tuple(CaseResult(str(i), "q", None, *pair) for i, pair in enumerate(pairs))
    with open_embedder(minilm, threads=1) as embedder:
        found = with_semantic_drift(Quality(cases), embedder)
    alike, apart, chinese = (case.sdi or 0.0 for case in found.cases)
    assert alike < 0.15 < 0.7 < apart
    # An English vocabulary has no sign for either verb: this must be said, not passed over.
    assert chinese == 0
    assert found.semantic is not None
    assert found.semantic.blind == 1
    assert found.semantic.unknown_tokens > 0
