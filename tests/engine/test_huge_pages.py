"""Memory allocated inside lies in huge pages where the kernel has them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chipwise.engine import huge_pages as module
from chipwise.engine.huge_pages import SETTING, added, huge_pages

MIB = 1 << 20


def huge_bytes(address: int) -> int:
    """Bytes in huge pages of the mapping that holds an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        head = line.split()[0]
        if "-" in head and ":" not in head:
            start, end = (int(part, 16) for part in head.split("-"))
            inside = start <= address < end
        elif inside and head == "AnonHugePages:":
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are Linux's")
def test_what_is_allocated_inside_lies_in_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    with huge_pages():
        array = np.full(32 * MIB, 7, np.uint8)
    if not huge_bytes(array.ctypes.data + 16 * MIB):
        pytest.skip("this kernel has no MADV_COLLAPSE")
    assert huge_bytes(array.ctypes.data + 16 * MIB) >= 16 * MIB
    assert (array == 7).all()


def test_the_user_can_turn_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "0")
    with huge_pages():
        array = np.full(32 * MIB, 7, np.uint8)
    assert (array == 7).all()
    assert module._page_bytes() is None


@pytest.mark.parametrize("text", ["", "many", str(512 * MIB)])
def test_a_system_without_usable_huge_pages_is_left_alone(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = tmp_path / "hpage_pmd_size"
    size.write_text(text)
    monkeypatch.setattr(module, "_HUGE_PAGE", size)
    monkeypatch.setattr(module, "_MAPS", tmp_path / "absent")
    with huge_pages():
        pass
    assert module._page_bytes() is None
    monkeypatch.setattr(module, "_HUGE_PAGE", tmp_path / "absent")
    assert module._page_bytes() is None


def test_a_process_that_cannot_see_its_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAPS", tmp_path / "absent")
    assert module._anonymous() == []


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=6)


@given(spans, spans)
def test_what_is_added_is_what_was_not_there(old: list[tuple[int, int]], new: list[tuple[int, int]]) -> None:
    before = [(start, start + size) for start, size in old]
    after = [(start, start + size) for start, size in new]

    def places(ranges: list[tuple[int, int]]) -> set[int]:
        return {place for start, end in ranges for place in range(start, end)}

    assert places(added(before, after)) == places(after) - places(before)


def test_they_are_available_unless_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_page_bytes", lambda: 2 << 20)
    assert module.available()
    monkeypatch.undo()
    monkeypatch.setenv(module.SETTING, "0")
    assert not module.available()
