"""Engines that misbehave, in processes of their own."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from chipwise.engine.isolated import IsolatedEngine, IsolatedSession, Isolation
from chipwise.engine.isolated.backoff import BackoffRules

SITE = Path(__file__).parent / "fake_site"
# A restart at once, however often.
EAGER = BackoffRules(first_s=0.01, longest_s=0.02)
OpenIsolated = Callable[..., IsolatedSession]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has the engine's process find the engine ``misbehaving``."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return SITE


@pytest.fixture
def open_isolated(site: Path) -> Iterator[OpenIsolated]:
    """Opens the engine; at the end no process of it is left, nor anything that was shared."""
    opened: list[IsolatedSession] = []
    before = shared()

    def make(*, isolation: Isolation | None = None, n_slots: int = 4, **options: Any) -> IsolatedSession:
        engine = IsolatedEngine("misbehaving", isolation or Isolation(backoff=EAGER))
        opened.append(engine.open({}, n_slots=n_slots, max_context=256, options=options))
        return opened[-1]

    yield make
    for session in opened:
        session.close()
    assert workers() == []
    # What a test caught refers to frames that refer to views.
    gc.collect()
    assert shared() == before


def workers(pid: int | None = None) -> list[int]:
    """The engine processes that a process has."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if "chipwise.engine.isolated.worker" in child.cmdline():
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def shared() -> int:
    """How many open descriptors of shared memory this process has."""
    folder = Path("/proc/self/fd")
    links = []
    for entry in folder.iterdir():
        try:
            links.append(os.readlink(entry))
        except OSError:
            continue  # the one that lists them
    return sum("memfd:chipwise" in link for link in links)
