from __future__ import annotations

import os

import numpy as np
import pytest

from chipwise.engine.isolated.shared import SharedMemory, aligned


def test_both_sides_see_the_same_and_views_outlive_growth_and_end() -> None:
    ours = SharedMemory.create()
    theirs = SharedMemory(os.dup(ours.descriptor))
    small = ours.array(np.int64, (2, 3))
    small[...] = 7
    assert theirs.array(np.int64, (2, 3)).tolist() == [[7] * 3] * 2
    large = theirs.array(np.float32, (1000, 1000), aligned(48))
    large[...] = 0.5
    assert ours.array(np.float32, (1000, 1000), aligned(48)).sum() == 500_000
    assert ours.array(np.int64, (2, 3)).sum() == 42
    theirs.array(np.int64, (2, 3))[...] = 8
    ours.close()
    theirs.close()
    ours.close()
    assert small.sum() == 48


def test_pages_go_back_and_come_again() -> None:
    memory = SharedMemory.create()
    memory.array(np.float32, (1 << 18,))[...] = 1
    assert os.fstat(memory.descriptor).st_blocks * 512 >= 1 << 20
    memory.empty()
    assert os.fstat(memory.descriptor).st_blocks == 0
    again = memory.array(np.float32, (1 << 18,))
    assert not again.any()
    memory.close()


def test_nobody_cuts_it_off() -> None:
    memory = SharedMemory.create()
    memory.array(np.int64, (512,))
    with pytest.raises(PermissionError):
        os.ftruncate(memory.descriptor, 8)
    memory.close()


@pytest.mark.parametrize(("size", "place"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_alignment(size: int, place: int) -> None:
    assert aligned(size) == place
