"""Mapped pages go back to the system, and what was written to them does not get lost."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from chipwise.engine import mapped_files
from chipwise.engine.mapped_files import release_pages

PAGE = mmap.PAGESIZE
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's maps")


def mapped(path: Path, access: int) -> mmap.mmap:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(range(256)) * (16 * PAGE // 256))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0, access=access)


@linux
def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
    with mapped(tmp_path / "of it" / "weights.bin", mmap.ACCESS_READ) as view:
        assert sum(view[::PAGE]) == 0
        assert release_pages(tmp_path / "of it") == 16 * PAGE
        assert release_pages(tmp_path / "of it") == 0
        assert view[PAGE + 7] == 7


@linux
def test_pages_that_were_written_to_stay(tmp_path: Path) -> None:
    with mapped(tmp_path / "a" / "weights.bin", mmap.ACCESS_COPY) as view:
        view[5] = 77
        assert release_pages(tmp_path / "a") == 0
        assert view[5] == 77


@linux
def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    with mapped(tmp_path / "ab" / "weights.bin", mmap.ACCESS_READ) as view:
        assert view[0] == 0
        assert release_pages(tmp_path / "a") == 0


def test_without_maps_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_files, "_MAPS", tmp_path / "absent")
    assert release_pages(tmp_path) == 0
    monkeypatch.setattr(sys, "platform", "darwin")
    assert release_pages(tmp_path) == 0
