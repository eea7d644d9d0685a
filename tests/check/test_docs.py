from __future__ import annotations

from chipwise.check.docs import render
from chipwise.check.rules import RULES


def test_every_rule_has_its_place() -> None:
    page = render()
    for one in RULES:
        assert f"\n## {one.id}\n" in page
        for text in (one.message, one.why, one.limit, one.remedy):
            assert text in page


def test_identifiers_are_unique() -> None:
    names = [one.id for one in RULES]
    assert len(names) == len(set(names))
