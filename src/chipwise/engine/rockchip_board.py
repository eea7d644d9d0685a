"""RockchipBoard: the Rockchip chip this process runs on, as the kernel names it."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from chipwise.errors import InputError, UnknownTargetError
from chipwise.target import load_target
from chipwise.target.host import kernel_files

_COMPATIBLE = "proc/device-tree/compatible"
_DRIVER = "sys/module/rknpu/version"
_CHIP = re.compile(r"rockchip,(r[kv]\d{4}[a-z]?)")
_ARM = ("aarch64", "arm64", "armv7l")


@dataclass(frozen=True)
class RockchipBoard:
    """A board with a Rockchip chip.

    Attributes:
        chip: The chip by its name in the catalogue, e.g. ``rk3588`` (also for an rk3588s), or as the kernel names it
            where the catalogue has none; None where the device tree cannot be read, as in a container.
        npu_cores: Cores of its NPU; 1 where that is not known.
        driver_version: Version of the NPU's kernel driver; None if the kernel does not say.
    """

    chip: str | None
    npu_cores: int
    driver_version: str | None


def find_board(engine: str, root: Path = Path("/")) -> RockchipBoard:
    """The board this runs on.

    Args:
        engine: Name of the engine that needs it, for the message.
        root: The folder that holds ``proc`` and ``sys``; ``/``, or a recorded tree.

    Raises:
        InputError: This machine is no Rockchip board.
    """
    compatible = kernel_files.text(root / _COMPATIBLE)
    found = _CHIP.findall(compatible or "")
    if compatible is None and platform.machine() in _ARM:
        return RockchipBoard(None, 1, kernel_files.text(root / _DRIVER))
    if not found:
        named = " ".join((compatible or "").replace("\0", " ").split())[:80]
        machine = f"a board of another maker ({named})" if named else f"a {platform.machine() or 'strange'} machine"
        raise InputError(
            f"the engine {engine!r} runs on a Rockchip board, and this is {machine}",
            remedy="copy the bundle to the board and run chipwise there; `chipwise inspect` shows it here",
        )
    chip, cores = _in_catalogue(found[-1])
    return RockchipBoard(chip, cores, kernel_files.text(root / _DRIVER))


def _in_catalogue(name: str) -> tuple[str, int]:
    """The chip's name in the catalogue and its NPU's cores. A letter at the end is a variant of the same chip."""
    for candidate in (name, name.rstrip("abcdefghijklmnopqrstuvwxyz")):
        try:
            unit = load_target(candidate).chip.units[0]
        except UnknownTargetError:
            continue
        return candidate, int(unit.count.value) if unit.kind == "npu" and unit.count else 1
    return name, 1
