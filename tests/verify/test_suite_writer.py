from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import QueryFileError
from chipwise.verify.suite_writer import write_suite


def test_what_cannot_be_read_back_replaces_nothing(tmp_path: Path) -> None:
    good = [{"id": "a", "prompt": "p", "keywords": ["k"]}]
    write_suite(tmp_path / "s", "s", good, about="", record_lines=20)
    before = sorted((path.name, path.read_bytes()) for path in (tmp_path / "s").iterdir())
    for name, lines in (
        ("s", [*good, {"id": "a", "prompt": "again", "keywords": ["k"]}]),
        ("s", [{"id": "b", "prompt": "p", "keywords": ["\ud800"]}]),
        ("del\x7f", good),
    ):
        with pytest.raises(QueryFileError, match="nothing was written") as caught:
            write_suite(tmp_path / "s", name, lines, about="", record_lines=20, overwrite=True)
        assert str(tmp_path / "s") in str(caught.value.where)
    assert sorted((path.name, path.read_bytes()) for path in (tmp_path / "s").iterdir()) == before
