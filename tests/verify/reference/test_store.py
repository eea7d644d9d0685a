from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from chipwise.engine import Batch
from chipwise.verify.reference import store as stores
from chipwise.verify.reference.record import RecordWriter
from chipwise.verify.reference.store import ReferenceStore
from tests.verify.fakes import TinySession
from tests.verify.reference.test_record import batch

STEP = batch(3, 4)


def keep(store: ReferenceStore, key: str, step: Batch = STEP) -> None:
    session = TinySession()
    with store.part(key) as part:
        writer = RecordWriter(part, max_bytes=store.max_bytes)
        writer.add(step, session.step(step).logits)
        writer.finish(session, "now", {})
        store.keep(key, part)


def names(store: ReferenceStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


def test_it_lies_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # of what keeps the tests out of the user's cache
    monkeypatch.setenv("CHIPWISE_CACHE", str(tmp_path))
    assert ReferenceStore.of_user().folder == tmp_path / "references"


def test_kept_found_discarded(tmp_path: Path) -> None:
    store = ReferenceStore(tmp_path / "made" / "on the way")
    assert store.find("a") is None
    keep(store, "a")
    assert names(store) == ["a.ref"]
    assert (store.folder / "a.ref").stat().st_mode & 0o077 == 0
    found = store.find("a")
    assert found is not None
    with found as record:
        assert record.vocab_size == 41
    store.discard("a")
    assert store.find("a") is None
    store.discard("a")


def test_what_was_not_kept_leaves_nothing(tmp_path: Path) -> None:
    store = ReferenceStore(tmp_path)
    with suppress(KeyboardInterrupt), store.part("a") as part:
        part.write(b"half")
        raise KeyboardInterrupt
    assert names(store) == []


def test_a_damaged_record_is_removed(tmp_path: Path) -> None:
    store = ReferenceStore(tmp_path)
    keep(store, "a")
    path = tmp_path / "a.ref"
    path.write_bytes(path.read_bytes()[:-1])
    assert store.find("a") is None
    assert names(store) == []


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    store = ReferenceStore(tmp_path)
    for key in "abc":
        keep(store, key)
    size = (tmp_path / "a.ref").stat().st_size
    for age, key in enumerate("abc"):
        os.utime(tmp_path / f"{key}.ref", (1000 + age, 1000 + age))
    assert store.find("a") is not None  # used now
    small = ReferenceStore(tmp_path, max_bytes=2 * size + 10)
    keep(small, "d")
    assert names(small) == ["a.ref", "d.ref"]


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    store = ReferenceStore(tmp_path)
    for name, age_s in (("old.x.part", 2 * 24 * 3600), ("new.x.part", 60)):
        (tmp_path / name).write_bytes(b"half")
        at = os.path.getmtime(tmp_path / name) - age_s
        os.utime(tmp_path / name, (at, at))
    keep(store, "a")
    assert names(store) == ["a.ref", "new.x.part"]


def test_it_leaves_most_of_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ReferenceStore(tmp_path)
    monkeypatch.setattr(stores, "free_bytes", lambda path: 4000)
    assert store.max_bytes == 1000


def test_many_at_once_never_read_half(tmp_path: Path) -> None:
    store = ReferenceStore(tmp_path)
    failed: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = store.find("a")
            if found is None and (tmp_path / "a.ref").exists():
                failed.append("a record that is there could not be read")

    keep(store, "a")
    reader = threading.Thread(target=read)
    reader.start()
    writers = [threading.Thread(target=lambda: [keep(store, "a") for _ in range(10)]) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert failed == []
    assert names(store) == ["a.ref"]
