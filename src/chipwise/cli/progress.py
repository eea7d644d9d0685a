"""Progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from chipwise.verify.generate import Progress


@contextmanager
def cases_bar(total: int) -> Iterator[Progress]:
    """A bar of the cases done, on a terminal; a log file gets none."""
    stderr = sys.stderr
    if not stderr.isatty():
        # A log file wants no bar.
        yield lambda done, of: None
        return
    with click.progressbar(range(total), label="cases", file=stderr) as bar:
        yield lambda done, of: bar.update(done - bar.pos)
