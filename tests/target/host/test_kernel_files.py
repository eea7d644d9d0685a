from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.target.host.kernel_files import integer, text


@pytest.mark.parametrize(("content", "expected"), [(b"12\n", 12), (b"max\n", None), (b"", None), (b"\xff", None)])
def test_integer(tmp_path: Path, content: bytes, expected: int | None) -> None:
    (tmp_path / "f").write_bytes(content)
    assert integer(tmp_path / "f") == expected


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert text(tmp_path / "absent") is None
    assert text(tmp_path) is None
    assert integer(tmp_path / "absent") is None


@given(st.binary(max_size=64))
def test_any_bytes_are_text_or_unknown(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    read = text(path)
    assert read is None or read == read.strip("\0 \n")
