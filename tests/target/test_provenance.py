from __future__ import annotations

import pytest

from chipwise.target import Provenance


def test_line_names_kind_source_and_date() -> None:
    assert Provenance("vendor", "RK3588 TRM", "2026-11").line() == "vendor: RK3588 TRM (2026-11)"


@pytest.mark.parametrize("date", ["", "2026", "11/2026", "2026-1", "yesterday", "2026-11-29T12:00"])
def test_a_date_must_be_one(date: str) -> None:
    with pytest.raises(ValueError, match="date: expected YYYY-MM"):
        Provenance("vendor", "sheet", date)


def test_a_source_must_be_named() -> None:
    with pytest.raises(ValueError, match="source: is empty"):
        Provenance("vendor", "  ", "2026-11")


def test_only_what_is_assumed_is_unverified() -> None:
    assert Provenance("published", "a blog", "2026-11").verified
    assert not Provenance("assumed", "often stated", "2026-11").verified
