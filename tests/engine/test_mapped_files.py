"""Mapped pages go back to the system, and what was written to them, or is not ours to give back, does not get lost."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chipwise.engine import mapped_files
from chipwise.engine.mapped_files import read_once

PAGE = mmap.PAGESIZE
ALL = 16 * PAGE
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's maps")


@contextmanager
def mapped(path: Path, access: int = mmap.ACCESS_READ) -> Iterator[mmap.mmap]:
    """A file of 16 pages in memory, all of it read."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(range(256)) * (ALL // 256))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, access=access) as view:
        assert sum(view[::PAGE]) == 0
        yield view


def resident(folder: Path) -> int:
    """Bytes of files below a folder that are in memory."""
    return sum(one.resident_bytes for one in mapped_files._maps(mapped_files._prefix(folder)))


@linux
def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
    with read_once(tmp_path):
        view = mapped(tmp_path / "weights.bin")
        read = view.__enter__()
        assert resident(tmp_path) == ALL
    assert resident(tmp_path) == 0
    assert read[PAGE + 7] == 7
    view.__exit__(None, None, None)


@linux
def test_pages_that_were_written_to_stay(tmp_path: Path) -> None:
    with read_once(tmp_path):
        view = mapped(tmp_path / "weights.bin", mmap.ACCESS_COPY)
        changed = view.__enter__()
        changed[5] = 77
    assert changed[5] == 77
    view.__exit__(None, None, None)


@linux
def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    with read_once(tmp_path / "a"):
        view = mapped(tmp_path / "ab" / "weights.bin")
        view.__enter__()
    assert resident(tmp_path / "ab") == ALL
    view.__exit__(None, None, None)


@linux
def test_what_was_mapped_before_is_left_alone(tmp_path: Path) -> None:
    """Its owner may unmap it at any moment, and then its address is somebody else's."""
    with mapped(tmp_path / "weights.bin"), mapped(tmp_path / "more.bin"):
        with read_once(tmp_path):
            pass
        assert resident(tmp_path) == 2 * ALL


@linux
@pytest.mark.parametrize("name", ["a\fb", "a b", "a\nb", "a\udcffb", "灯"])
def test_any_name_of_a_folder_will_do(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    with mapped(folder / "before.bin"):
        with read_once(folder):
            view = mapped(folder / "weights.bin")
            view.__enter__()
            assert resident(folder) == 2 * ALL
        assert resident(folder) == ALL
    view.__exit__(None, None, None)


@linux
def test_a_folder_whose_path_is_within_anothers_is_not_taken_for_it(tmp_path: Path) -> None:
    inner = mapped_files._prefix(tmp_path)
    line = b"1000-3000 r--p 00000000 00:01 7    %b\nSize: 8 kB\nRss: 4 kB\nPss: 4 kB\nAnonymous: %b kB\nVmFlags: rd\n"
    ours, own, theirs = line % (inner + b"a", b"0"), line % (inner + b"b", b"4"), line % (b"/mnt" + inner + b"a", b"0")
    text = theirs + ours + theirs + own + line % (b"/elsewhere", b"0")
    (tmp_path / "smaps").write_bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped_files, "_MAPS", tmp_path / "smaps")
        found = mapped_files._maps(inner)
    assert found == [
        mapped_files._Map(0x1000, 0x3000, 4096, own=False),
        mapped_files._Map(0x1000, 0x3000, 4096, own=True),
    ]


@linux
def test_what_is_in_memory_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel looks at every page for it, and a served request may wait."""
    real, read = Path.read_bytes, list[str]()

    def note(path: Path) -> bytes:
        read.append(str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", note)
    with read_once(tmp_path), mapped(tmp_path / "weights.bin"):
        pass
    assert read == ["/proc/self/maps", "/proc/self/smaps"]


@linux
def test_where_two_open_at_a_time_nothing_is_given_back(tmp_path: Path) -> None:
    with read_once(tmp_path / "a"), mapped(tmp_path / "a" / "weights.bin"):
        with read_once(tmp_path / "b"):
            second = mapped(tmp_path / "b" / "weights.bin")
            second.__enter__()
        assert resident(tmp_path / "b") == ALL
        second.__exit__(None, None, None)
    with read_once(tmp_path / "c"):
        third = mapped(tmp_path / "c" / "weights.bin")
        third.__enter__()
    assert resident(tmp_path / "c") == 0, "they are over"
    third.__exit__(None, None, None)


@linux
def test_an_opening_that_fails_is_over_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no graph"), read_once(tmp_path):
        raise ValueError("no graph")
    assert not mapped_files._going_on


def test_without_maps_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    for name in ("_SPANS", "_MAPS"):
        monkeypatch.setattr(mapped_files, name, tmp_path / "absent")
    with read_once(tmp_path):
        ran.append("without maps")
    monkeypatch.setattr(sys, "platform", "darwin")
    with read_once(tmp_path):
        ran.append("elsewhere")
    assert ran == ["without maps", "elsewhere"]
