"""Environment: the folder a toolchain is installed in, with a Python of its own, and what state it is in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from chipwise.errors import DependencyError
from chipwise.toolchain.spec import ToolchainSpec
from chipwise.toolchain.stamp import Stamp

FOLDER_VARIABLE = "CHIPWISE_TOOLCHAINS"


class State(Enum):
    """How far an environment has come; the value is how it is said."""

    ABSENT = "not installed"
    PARTIAL = "half installed"
    READY = "installed"


@dataclass(frozen=True)
class Environment:
    """A toolchain's own virtual environment, at ``root/NAME``; its stamp, log and lock lie beside it.

    A virtual environment that the user made there by hand, without a stamp, counts as installed.

    Attributes:
        spec: The toolchain.
        root: The folder that holds all toolchains.
    """

    spec: ToolchainSpec
    root: Path

    @property
    def folder(self) -> Path:
        """The virtual environment."""
        return self.root / self.spec.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def stamp_file(self) -> Path:
        """Where the stamp lies."""
        return self.root / f"{self.spec.name}.json"

    @property
    def log_file(self) -> Path:
        """What the installation wrote."""
        return self.root / f"{self.spec.name}.log"

    @property
    def temporary_folder(self) -> Path:
        """Where pip unpacks what it downloads."""
        return self.root / f"{self.spec.name}.tmp"

    @property
    def lock_file(self) -> Path:
        """Held while it is installed or removed."""
        return self.root / f"{self.spec.name}.lock"

    @property
    def state(self) -> State:
        """What is there, as far as the files tell; `doctor` looks inside."""
        stamp = Stamp.read(self.stamp_file)
        if stamp is None:
            return State.READY if self.python.exists() else State.ABSENT
        return State.READY if stamp.proven and self.python.exists() else State.PARTIAL

    def require_ready(self) -> None:
        """Check that jobs can run here.

        Raises:
            DependencyError: The toolchain is not installed, or only half.
        """
        if self.state is not State.READY:
            raise DependencyError(
                f"the toolchain {self.spec.name} is {self.state.value}",
                where=str(self.folder),
                remedy=f"run `chipwise toolchain install {self.spec.name}`",
            )


def default_root() -> Path:
    """Where toolchains lie: CHIPWISE_TOOLCHAINS, else chipwise/toolchains in the user's data folder (XDG)."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification has a relative path ignored.
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "chipwise" / "toolchains"
