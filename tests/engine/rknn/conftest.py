"""A package that behaves like rknn-toolkit-lite2."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FAKES = Path(__file__).parent / "fake_site"


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "rknnlite"]:
        del sys.modules[name]


@pytest.fixture
def lite(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The fake package, installed; its module holds MODELS, FAULT and MADE."""
    monkeypatch.syspath_prepend(str(FAKES))
    _forget()
    yield importlib.import_module("rknnlite.api.rknn_lite")
    _forget()
