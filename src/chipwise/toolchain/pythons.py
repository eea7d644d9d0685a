"""find_python: an interpreter of a version that a toolchain takes, and that can make virtual environments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from chipwise.errors import InputError
from chipwise.toolchain.process import clean_environment

_PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
_PROBE_TIMEOUT_S = 30.0


def find_python(versions: tuple[tuple[int, int], ...], chosen: Path | None = None) -> Path:
    """An interpreter of one of the versions, best first: the one chosen, else ours, else what lies on PATH.

    Raises:
        InputError: There is none, or the chosen one is of another version or broken.
    """
    known = " or ".join(f"{major}.{minor}" for major, minor in versions)
    if chosen is not None:
        found = python_version(chosen)
        if found not in versions:
            said = "no Python that can make virtual environments" if found is None else f"Python {found[0]}.{found[1]}"
            raise InputError(f"is {said}", where=str(chosen), remedy=f"choose a Python {known}")
        return chosen
    for version in versions:
        for candidate in _candidates(version):
            if python_version(candidate) == version:
                return candidate
    raise InputError(f"no Python {known} was found", remedy="install one, or name it with --python")


def python_version(python: Path) -> tuple[int, int] | None:
    """Major and minor version of an interpreter; None if it does not run or has no venv or ensurepip."""
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _PROBE], capture_output=True, text=True, check=False,
            timeout=_PROBE_TIMEOUT_S, env=clean_environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        major, minor = done.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _candidates(version: tuple[int, int]) -> list[Path]:
    name = f"python{version[0]}.{version[1]}"
    ours = [Path(sys.base_prefix) / "bin" / name] if sys.version_info[:2] == version else []
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # All of them, for the first may be a shim of a version that is not set up.
    found = [shutil.which(name, path=folder) for folder in folders if folder]
    return [*ours, *(Path(path) for path in dict.fromkeys(found) if path is not None)]
