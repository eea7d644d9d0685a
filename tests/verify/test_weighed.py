from __future__ import annotations

from dataclasses import replace

import pytest

from chipwise.report.quality import DriftSummary, Quality
from chipwise.verify.speed import measure_speed
from chipwise.verify.weighed import weighed, weighed_reference
from tests.report.samples import matrix, summary
from tests.verify.fakes import TinySession

DRIFT: DriftSummary = summary(100, 0.03)
QUALITY = Quality((), matrix=matrix(passed=False), answer=DRIFT)


def test_shares_are_over_all_cases_scored_and_count_none_twice() -> None:
    speed = measure_speed(TinySession(), "x")
    assert speed is not None
    one = weighed("w4a16", QUALITY, size_bytes=100, speed=speed, outcome="fail", kept=True, said="no")
    # Rows of labels are parts of the first.
    assert one.lost == pytest.approx((12 + 0 + 1 + 1) / 320)
    assert one.right == pytest.approx((85 + 76 + 30 + 89) / 320)
    assert (one.decode_tokens_per_s, one.prefill_tokens_per_s) == (speed.decode.value, speed.prefill.value)
    assert (one.kl_mean_nats, one.outcome, one.kept, one.reference, one.said) == (0.03, "fail", True, False, "no")
    reference = weighed_reference("fp32", QUALITY, size_bytes=400, speed=None)
    assert reference.right == pytest.approx((97 + 76 + 31 + 90) / 320)
    assert (reference.reference, reference.outcome, reference.decode_tokens_per_s) == (True, None, None)


def test_what_was_not_measured_is_none() -> None:
    one = weighed("w4a16", Quality(()), size_bytes=None, speed=None, outcome="pass", kept=True)
    assert (one.lost, one.right, one.kl_mean_nats, one.decode_tokens_per_s) == (None, None, None, None)
    rows = tuple(replace(row, reference=None) for row in QUALITY.matrix)
    alone = weighed("w4a16", Quality((), matrix=rows), size_bytes=None, speed=None, outcome="pass", kept=True)
    assert alone.lost is None
    assert alone.right is not None
    assert weighed_reference("fp32", Quality((), matrix=rows), size_bytes=None, speed=None).right is None
