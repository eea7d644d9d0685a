"""ToolchainSpec: what a vendor's toolchain is for, and exactly what makes one that works."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(==|<|<=|>=)([A-Za-z0-9.+!]+)$")


@dataclass(frozen=True)
class Licence:
    """Under what terms a toolchain comes.

    Attributes:
        name: The licence, and whose it is.
        url: Where it can be read.
        proprietary: Whether the user must accept it before anything is downloaded.
    """

    name: str
    url: str
    proprietary: bool


@dataclass(frozen=True)
class Pin:
    """One package at the version that works.

    Attributes:
        package: Name on the package index.
        operator: ``==``, or a bound where the exact version does not matter.
        version: The version compared with.
    """

    package: str
    operator: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Pin:
        """A pin from e.g. ``numpy==1.26.4``.

        Raises:
            ValueError: The text is no package with one version.
        """
        found = _PIN.match(text)
        if found is None:
            raise ValueError(f"{text!r} is not like numpy==1.26.4")
        return cls(*found.groups())

    def __str__(self) -> str:
        return f"{self.package}{self.operator}{self.version}"

    def takes(self, version: str) -> bool:
        """Whether an installed version is the one asked for; a local suffix such as ``+cpu`` does not matter."""
        have, want = (_numbers(text.partition("+")[0]) for text in (version, self.version))
        if self.operator == "==":
            return version.partition("+")[0] == self.version or have == want
        return {"<": have < want, "<=": have <= want, ">=": have >= want}[self.operator]


@dataclass(frozen=True)
class InstallStep:
    """Packages that one run of pip installs.

    Attributes:
        name: What it brings, in a word or two.
        pins: The packages.
        size_bytes: What they take on disk, with what they pull in.
        no_deps: Whether pip must not follow what the packages declare.
    """

    name: str
    pins: tuple[Pin, ...]
    size_bytes: int
    no_deps: bool = False

    def pip_arguments(self) -> list[str]:
        """What follows ``pip install``."""
        return [*(["--no-deps"] if self.no_deps else []), *map(str, self.pins)]


@dataclass(frozen=True)
class ToolchainSpec:
    """A vendor's toolchain: what it is, how it is installed, and how it proves that it works.

    Attributes:
        name: How the user names it; also its folder's name.
        purpose: What it does, in one line.
        chips: Targets it compiles for.
        licence: Its terms.
        pythons: Versions of Python that the pins exist for, best first.
        machines: Machine types (``uname -m``) that it runs on.
        steps: What pip installs, in this order.
        imports: Modules that must import.
        runner: The script that does its jobs, see ``runners/job_main.py``; it has an action ``prove``.
        proof_timeout_s: The longest its proof may take, in seconds.
        error_line: A regular expression: lines of its log that tell the cause of a failure.
    """

    name: str
    purpose: str
    chips: tuple[str, ...]
    licence: Licence
    pythons: tuple[tuple[int, int], ...]
    machines: tuple[str, ...]
    steps: tuple[InstallStep, ...]
    imports: tuple[str, ...]
    runner: Path
    proof_timeout_s: float = 300.0
    error_line: str | None = None

    @property
    def size_bytes(self) -> int:
        """What the whole environment takes on disk, in bytes."""
        return sum(step.size_bytes for step in self.steps)

    @property
    def pins(self) -> tuple[Pin, ...]:
        """Every package that must be there, the last step's word counting."""
        return tuple({pin.package: pin for step in self.steps for pin in step.pins}.values())


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
