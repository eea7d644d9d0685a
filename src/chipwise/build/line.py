"""Line: the steps of a build that differ between kinds of models, and what all of them are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Protocol

from chipwise.build.options import BuildOptions
from chipwise.build.result import BuildResult
from chipwise.build.steps import StepLog
from chipwise.files import writing
from chipwise.report import Finding


@dataclass(frozen=True)
class Workplace:
    """What a line works with.

    Attributes:
        folder: A folder for graphs in the making, on the disk of the output; gone when the build ends.
        findings: What the checks found.
        log: The steps.
    """

    folder: Path
    findings: tuple[Finding, ...]
    log: StepLog


class Line(Protocol):
    """A build of one kind of model, once it is read."""

    def describe(self) -> str:
        """What was read, in one line."""
        ...

    def check(self) -> Sequence[Finding]:
        """The model held against the target."""
        ...

    def build(self, place: Workplace) -> BuildResult:
        """Quantize, verify, bundle."""
        ...


@contextmanager
def work_folder(out: Path) -> Iterator[Path]:
    """A hidden folder beside the output.

    Raises:
        OutputError: The disk does not take it.
    """
    parent = out.absolute().parent
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix=f".{out.name}.work-", dir=parent))
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def for_outcome(options: BuildOptions, *, passed: bool) -> BuildOptions:
    """The options with the place a bundle goes to: what failed must not take the place of what works."""
    if passed:
        return options
    return replace(options, out=options.out.with_name(f"{options.out.name}.failed"), overwrite=True)
