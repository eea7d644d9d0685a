"""Files for the fake llama.cpp, and sessions over it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chipwise.engine.llamacpp import LlamaCppEngine
from chipwise.engine.llamacpp.session import LlamaCppSession

SITE = Path(__file__).parent / "fake_site"
OpenFake = Callable[..., LlamaCppSession]


def load_fake() -> ModuleType:
    """The fake binding, under a name of its own: a package that is installed stays what it is."""
    spec = importlib.util.spec_from_file_location("fake_llama_cpp", SITE / "llama_cpp" / "llama_cpp.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_gguf(folder: Path, **settings: Any) -> Path:
    """A file that the fake reads."""
    path = folder / "fake.gguf"
    path.write_bytes(b"GGUF" + json.dumps(settings).encode())
    return path


@pytest.fixture
def fake() -> ModuleType:
    return load_fake()


@pytest.fixture
def open_fake(fake: ModuleType, tmp_path: Path) -> Iterator[OpenFake]:
    """Opens sessions over the fake; at the end it holds no model and no context any more."""
    opened: list[LlamaCppSession] = []

    def make(*, n_slots: int = 4, max_context: int = 256, options: dict[str, Any] | None = None, **settings: Any):
        engine, files = LlamaCppEngine(fake), {"gguf": fake_gguf(tmp_path, **settings)}
        session = engine.open(files, n_slots=n_slots, max_context=max_context, options=options or {})
        assert isinstance(session, LlamaCppSession)
        opened.append(session)
        return session

    yield make
    for session in opened:
        session.close()
    assert fake.alive() == 0
