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
    with _bar(total, "cases") as progress:
        yield progress


@contextmanager
def texts_bar(total: int) -> Iterator[Progress]:
    """The same of the texts that damage is attributed on."""
    with _bar(total, "attribution") as progress:
        yield progress


@contextmanager
def _bar(total: int, label: str) -> Iterator[Progress]:
    stderr = sys.stderr
    if not stderr.isatty():
        # A log file wants no bar.
        yield lambda done, of: None
        return
    with click.progressbar(range(total), label=label, file=stderr) as bar:
        yield lambda done, of: bar.update(done - bar.pos)
