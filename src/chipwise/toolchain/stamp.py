"""Stamp: how far the installation of a toolchain has come; it lies beside the environment and outlives its repair."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chipwise.errors import InputError
from chipwise.files import read_bounded, write_atomic

_MAX_BYTES = 1 << 16


@dataclass(frozen=True)
class Stamp:
    """What was done, in order.

    Attributes:
        made: Whether the environment itself is whole.
        started: The pip arguments of the step that was begun last.
        done: The pip arguments of each step that ended well.
        proven: Whether the whole toolchain has passed its proof.
    """

    made: bool = False
    started: list[str] | None = None
    done: tuple[list[str], ...] = ()
    proven: bool = False

    @classmethod
    def read(cls, path: Path) -> Stamp | None:
        """The stamp in a file; None if there is none. One that cannot be read counts as nothing done."""
        if not path.exists():
            return None
        try:
            value = json.loads(read_bounded(path, _MAX_BYTES))
            return cls(bool(value["made"]), value["started"], tuple(map(list, value["done"])), bool(value["proven"]))
        except (ValueError, KeyError, TypeError, InputError):
            return cls()

    def write(self, path: Path) -> None:
        """Write the stamp, whole or not at all.

        Raises:
            OutputError: The file cannot be written.
        """
        write_atomic(path, json.dumps(asdict(self), indent=2) + "\n")
