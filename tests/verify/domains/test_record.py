from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.verify.domains import DOMAINS
from chipwise.verify.domains.draw import Draw
from chipwise.verify.domains.record import THINGS, draw_record


def test_every_domain_has_things() -> None:
    assert set(THINGS) == set(DOMAINS)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(DOMAINS)), st.sampled_from(["en", "zh"]), st.integers(4, 300), st.integers(0, 10**6))
def test_one_fault_near_the_beginning_that_is_named_once(domain: str, lang: str, lines: int, seed: int) -> None:
    record = draw_record(Draw(str(seed)), domain, lang, lines)
    _, *logged = record.text.split("\n")
    assert len(logged) == lines
    faulty = [i for i, line in enumerate(logged) if not line.endswith(("OK", "正常"))]
    assert len(faulty) == 1
    assert faulty[0] < max(1, lines // 4)
    for fact in record.facts:
        assert record.text.count(fact) == 1
        assert fact in logged[faulty[0]]
        assert fact in record.answer


@pytest.mark.parametrize("lines", [0, 3])
def test_a_record_has_four_lines_at_least(lines: int) -> None:
    assert len(draw_record(Draw("x"), "home", "en", lines).text.split("\n")) == 5
