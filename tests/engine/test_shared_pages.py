from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from chipwise.engine.shared_pages import PageMap, SharedPages, available
from chipwise.errors import EngineError

PAGE = mmap.PAGESIZE


def _floats(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def test_parts_of_pages_are_seen_at_several_addresses() -> None:
    assert available()
    pages = SharedPages(3 * PAGE)
    own = pages.array(0, (3, PAGE // 4))
    assert not own.any()
    shown = PageMap(pages, 4 * PAGE)
    for place, part in enumerate((2, 0, 2, 2)):
        shown.put(place * PAGE, part * PAGE, PAGE)
    own[2] = 5
    seen = _floats(shown.address, PAGE).reshape(4, PAGE // 4)
    assert (seen[[0, 2, 3]] == 5).all()
    seen[3, 7] = 1
    assert own[2, 7] == seen[0, 7] == 1
    shown.put(0, PAGE, PAGE)
    own[1] = 3
    assert (seen[0] == 3).all()
    assert not own[0].any()


def test_what_is_mapped_outlives_the_pages() -> None:
    pages = SharedPages(PAGE)
    own = pages.array(0, (4,))
    shown = PageMap(pages, PAGE)
    shown.put(0, 0, PAGE)
    pages.close()
    pages.close()
    own[0] = 2
    assert _floats(shown.address, 1)[0] == 2
    with pytest.raises(EngineError, match="cannot map a slot of the KV cache once more"):
        shown.put(0, 0, PAGE)


@pytest.mark.parametrize("size", [0, 1 << 50, 1 << 70])
def test_sizes_that_there_is_no_memory_for(size: int) -> None:
    with pytest.raises((OSError, ValueError, OverflowError)):
        SharedPages(size)
