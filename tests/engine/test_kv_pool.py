from __future__ import annotations

import ctypes
import mmap
import resource

import numpy as np
import psutil
import pytest

from chipwise.engine.kv_pool import KvPool, Place
from chipwise.engine.shared_pages import PageMap
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


def _repeating() -> KvPool:
    return KvPool(layers=2, n_slots=3, kv_heads=2, max_context=5, head_dim=4, repeats=4)


def _at(place: Place) -> np.ndarray:
    count = int(np.prod(place.shape))
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(place.address)).reshape(place.shape)


def test_a_slot_is_shown_several_times_as_the_same_memory() -> None:
    pool = _repeating()
    assert (pool.repeats, pool.capacity * 2 * 4 * 4 % mmap.PAGESIZE) == (4, 0)
    for layer in range(2):
        for part in ("key", "value"):
            view = pool.view(layer, part, 0, 3)
            view[:] = np.random.default_rng(layer + len(part)).standard_normal(view.shape)
    for slot in (2, 0, 1):
        assert pool.repeat(slot, 3)
        assert not pool.repeat(slot, 5)
        for layer in range(2):
            for part in ("key", "value"):
                rows, own = _at(pool.repeated(layer, part, 4)), pool.view(layer, part, slot, 1)
                assert (rows == own).all()
                rows[3, 1, 2] = slot
                assert (own[0, 1, 2] == slot).all()
                assert (rows[0, 1, 2] == slot).all()
    assert (pool.view(0, "key", 0, 3)[:, 1, 2] == np.array([[0], [1], [2]])).all()
    pool.move(1, 0, 3)
    pool.repeat(0, 3)
    assert (_at(pool.repeated(0, "key", 2))[1, 1, 2] == 1).all()
    pool.close()


def test_places_are_where_the_views_are() -> None:
    for pool in (_pool(), _repeating()):
        place = pool.place(1, "value", 1, 2)
        assert place.shape == (2, 2, pool.capacity, 4)
        assert place.address == pool.view(1, "value", 1, 2).ctypes.data


def test_what_cannot_be_shown_several_times() -> None:
    pool = _repeating()
    with pytest.raises(EngineError, match="there are 3 slots"):
        pool.repeat(3, 0)
    with pytest.raises(EngineError, match="6 tokens of slot 0"):
        pool.repeat(0, 6)
    with pytest.raises(EngineError, match="cannot be shown more than once"):
        _pool().repeat(0, 1)
    with pytest.raises(EngineError, match="cannot be shown more than once"):
        _pool().repeated(0, "key", 2)


def test_without_shared_memory_a_pool_is_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> int:
        raise PermissionError("no")

    monkeypatch.setattr("os.memfd_create", refuses)
    pool = _repeating()
    assert (pool.repeats, pool.capacity) == (1, 5)
    pool.view(0, "key", 0, 1)[:] = 1


def test_where_no_file_may_be_that_large_a_pool_is_a_plain_one() -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        pool = _repeating()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert pool.repeats == 1
    pool.view(0, "key", 0, 3)[:] = 1
    pool.move(0, 2, 5)
    pool.close()


def test_a_repeating_pool_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    process = psutil.Process()
    files, maps = process.num_fds(), len(process.memory_maps(grouped=False))
    for _ in range(20):
        pool = _repeating()
        pool.view(0, "key", 0, 3)[:] = 1
        pool.repeat(1, 5)
        pool.close()
    assert process.num_fds() == files
    assert len(process.memory_maps(grouped=False)) < maps + 20


def test_a_repeating_pool_larger_than_memory_is_refused_in_one_line() -> None:
    for tokens in (1 << 20, 1 << 50):
        with pytest.raises(InputError, match=r"no memory for the KV cache of 1000 slots.*fewer slots"):
            KvPool(40, 1000, 8, tokens, 128, repeats=17)


def test_without_addresses_a_pool_shows_each_slot_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise EngineError("no more maps")

    monkeypatch.setattr(PageMap, "put", refuses)
    pool = _repeating()
    assert pool.repeats == 1
    pool.view(0, "key", 0, 3)[:] = 1
    pool.move(0, 2, 5)
    pool.close()
