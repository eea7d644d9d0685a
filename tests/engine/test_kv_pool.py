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


def test_a_slot_goes_out_and_comes_back_into_another() -> None:
    pool = KvPool(layers=2, n_slots=3, kv_heads=2, max_context=8, head_dim=4)
    chance = np.random.default_rng(0)
    for layer in range(2):
        for part in ("key", "value"):
            pool.view(layer, part, 0, 1)[...] = chance.normal(size=(1, 2, 8, 4))
    kv = pool.read(0, 5)
    assert kv.shape == (2, 2, 2, 5, 4)
    pool.write(2, kv)
    for layer in range(2):
        for part in ("key", "value"):
            assert np.array_equal(pool.view(layer, part, 2, 1)[0, :, :5], pool.view(layer, part, 0, 1)[0, :, :5])
            assert not pool.view(layer, part, 2, 1)[0, :, 5:].any()


@pytest.mark.parametrize("shape", [(2, 2, 2, 9, 4), (2, 2, 3, 5, 4), (1, 2, 2, 5, 4), (2, 2, 2, 5), (0,)])
def test_kv_of_another_model_is_refused(shape: tuple[int, ...]) -> None:
    pool = KvPool(layers=2, n_slots=3, kv_heads=2, max_context=8, head_dim=4)
    with pytest.raises(EngineError):
        pool.write(0, np.zeros(shape, np.float32))
    with pytest.raises(EngineError):
        pool.write(0, np.zeros((2, 2, 2, 5, 4)))
    with pytest.raises(EngineError):
        pool.read(3, 1)
