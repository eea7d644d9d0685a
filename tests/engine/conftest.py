"""Boards without a board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeBoard = Callable[..., Path]


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
