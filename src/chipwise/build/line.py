"""Line: the steps of a build that differ between kinds of models, and what all of them are given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from chipwise.build.options import BuildOptions
from chipwise.build.result import BuildResult
from chipwise.build.steps import StepLog
from chipwise.bundle.staging import Staging
from chipwise.errors import ChipwiseError, OutputError
from chipwise.files import full_disk, output_error
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
    """A hidden folder beside the output, on the same disk; what a build that was killed left there is cleared first.

    Raises:
        OutputError: The disk does not take it, or became full while the folder was used; or another build with this
            output is at work.
    """
    final = Path(os.path.abspath(out))
    staging = Staging(final.with_name(f"{final.name}.work"), named=out)
    staging.open()
    try:
        yield staging.path
    except OutputError:
        raise
    except (OSError, ChipwiseError) as e:
        # Libraries that write files tell it in errors of theirs.
        full = full_disk(e)
        if full is None:
            raise
        raise output_error(full, Path(full.filename) if isinstance(full.filename, str) else out) from e
    finally:
        staging.discard()


def for_outcome(options: BuildOptions, *, passed: bool) -> BuildOptions:
    """The options with the place a bundle goes to: what failed must not take the place of what works."""
    if passed:
        return options
    return replace(options, out=options.out.with_name(f"{options.out.name}.failed"), overwrite=True)
