"""A Rockchip board without a board: a recorded device tree, and a package that behaves like rknn-toolkit-lite2."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FAKES = Path(__file__).parent / "fake_site"
MakeBoard = Callable[..., Path]


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


@pytest.fixture
def board(tmp_path: Path) -> MakeBoard:
    """Makes the root of a board with a chip."""

    def make(chip: str = "rk3588", *, compatible: str | None = None) -> Path:
        root = tmp_path / f"board_{chip}"
        tree, module = root / "proc/device-tree", root / "sys/module/rknpu"
        tree.mkdir(parents=True)
        module.mkdir(parents=True)
        text = compatible or f"radxa,some-board\0rockchip,{chip}\0"
        (tree / "compatible").write_bytes(text.encode())
        (module / "version").write_text("0.9.8\n")
        return root

    return make
