from __future__ import annotations

import platform
from pathlib import Path

import pytest

from chipwise.engine.rockchip_board import RockchipBoard, find_board
from chipwise.errors import InputError


def _root(tmp_path: Path, compatible: bytes, driver: bytes | None = None) -> Path:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_bytes(compatible)
    if driver is not None:
        (tmp_path / "sys/module/rknpu").mkdir(parents=True)
        (tmp_path / "sys/module/rknpu/version").write_bytes(driver)
    return tmp_path


@pytest.mark.parametrize(
    ("compatible", "chip", "cores"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588", 3),
        (b"xunlong,orangepi-5\0rockchip,rk3588s\0", "rk3588", 3),
        (b"rockchip,rk3588-evb7-lp4-v10\0rockchip,rk3588\0", "rk3588", 3),
        (b"rockchip,rk3576\0", "rk3576", 2),
        (b"rockchip,rk3566-firefly-roc-pc\0rockchip,rk3566\0", "rk3566", 1),
        (b"rockchip,rv1126b\0", "rv1126b", 1),
        (b"rockchip,rk9999\0", "rk9999", 1),
    ],
)
def test_boards(tmp_path: Path, compatible: bytes, chip: str, cores: int) -> None:
    assert find_board("rknn", _root(tmp_path, compatible, b"0.9.8\n")) == RockchipBoard(chip, cores, "0.9.8")


def test_a_kernel_that_names_no_driver(tmp_path: Path) -> None:
    assert find_board("rknn", _root(tmp_path, b"rockchip,rk3588\0")).driver_version is None


def test_another_makers_board(tmp_path: Path) -> None:
    root = _root(tmp_path, b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0")
    with pytest.raises(InputError, match=r"'rkllm' runs on a Rockchip board, .* \(nvidia,p3768\S* nvidia,tegra234\)"):
        find_board("rkllm", root)


def test_a_pc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(InputError, match="this is a x86_64 machine; copy the bundle to the board") as caught:
        find_board("rknn", tmp_path)
    assert caught.value.exit_code == 2


def test_a_container_hides_what_board_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert find_board("rknn", tmp_path) == RockchipBoard(None, 1, None)
