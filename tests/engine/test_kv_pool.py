from __future__ import annotations

import numpy as np
import pytest

from chipwise.engine.kv_pool import KvPool
from chipwise.errors import EngineError, InputError


def _pool() -> KvPool:
    pool = KvPool(2, 3, 2, 5, 4)
    for layer in range(2):
        for part in ("key", "value"):
            view = pool.view(layer, part, 0, 3)
            view[:] = np.random.default_rng(layer).standard_normal(view.shape)
    return pool


def test_views_are_the_memory_itself_and_side_by_side() -> None:
    pool = _pool()
    pool.view(1, "key", 2, 1)[:] = 7
    both = pool.view(1, "key", 1, 2)
    assert both.shape == (2, 2, 5, 4)
    assert (both[1] == 7).all()
    assert both.flags.c_contiguous
    assert not (pool.view(1, "value", 2, 1) == 7).any()


def test_move_copies_a_prefix_of_every_layer_and_no_more() -> None:
    pool, before = _pool(), _pool()
    pool.move(0, 2, 3)
    for layer in range(2):
        for part in ("key", "value"):
            now, then = pool.view(layer, part, 0, 3), before.view(layer, part, 0, 3)
            assert (now[2, :, :3] == then[0, :, :3]).all()
            assert (now[2, :, 3:] == then[2, :, 3:]).all()
            assert (now[:2] == then[:2]).all()


@pytest.mark.parametrize(("source", "target", "tokens"), [(0, 0, 3), (0, 1, 0)])
def test_moves_that_change_nothing(source: int, target: int, tokens: int) -> None:
    pool, before = _pool(), _pool()
    pool.move(source, target, tokens)
    assert (pool.view(0, "key", 0, 3) == before.view(0, "key", 0, 3)).all()


@pytest.mark.parametrize(("source", "target", "tokens"), [(3, 0, 1), (0, -1, 1), (0, 1, 6), (0, 1, -1)])
def test_moves_out_of_the_pool(source: int, target: int, tokens: int) -> None:
    with pytest.raises(EngineError, match=r"there are 3 slots of 5"):
        _pool().move(source, target, tokens)


def test_a_pool_larger_than_memory_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"no memory for the KV cache of 1000 slots.*fewer slots") as e:
        KvPool(1, 1000, 1 << 20, 1 << 20, 1 << 10)
    assert "\n" not in str(e.value)
