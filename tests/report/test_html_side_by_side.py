from __future__ import annotations

import re
from dataclasses import replace

from chipwise.report.html_side_by_side import render_side_by_side
from chipwise.report.quality import Quality
from tests.report.samples import side_by_side
from tests.report.test_html import EVIL, parsed, text_of


def test_the_page_needs_nothing_but_itself_and_names_both_sides() -> None:
    page = render_side_by_side(side_by_side())
    assert not re.search(r"https?:|//[a-z]|@import|url" + re.escape("("), page)
    checked = parsed(page)
    assert not {"script", "link", "img"} & {tag for tag, _ in checked.tags}
    assert checked.sections == ["said", "dimensions", "sides", "cases", "matrix", "environment"]
    text = text_of(page)
    assert "worse B is worse on keyword fidelity by 12 points" in text
    assert "only A says it" in text
    assert "Reference" not in text
    assert "Candidate" not in text
    assert "A&#39;s answers: computed, and kept." in page


def test_without_cases_and_with_names_that_are_evil() -> None:
    found = side_by_side()
    evil = replace(found, a=replace(found.a, name=EVIL), notes=(EVIL,), quality=None, cases_from=EVIL)
    page = render_side_by_side(evil)
    assert "<script" not in page
    assert parsed(page).sections == ["said", "sides", "environment"]
    assert parsed(render_side_by_side(replace(found, quality=Quality(())))).sections == ["said", "sides", "environment"]
