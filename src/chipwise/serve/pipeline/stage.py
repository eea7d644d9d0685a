"""Stage: one kind of work in a pipeline, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Work: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""From the values of several requests, and a buffer for each, to what each becomes, in order.

What it raises fails the requests in hand; a ``ChipwiseError`` in the place of a result fails that one alone. A result
may lie in its buffer: nobody writes there before the next stage is done with it.
"""


def _no_buffer() -> None:
    return None


@dataclass(frozen=True)
class Stage:
    """A kind of work that goes on beside that of the other stages.

    Attributes:
        name: What it is called in errors and thread names.
        work: The work. One thread calls it.
        batch: The most requests it takes at once. It takes those that are there, and waits for none.
        buffer: Makes a buffer that results may lie in, once for each place there is behind the stage.
    """

    name: str
    work: Work
    batch: int = 1
    buffer: Callable[[], Any] = _no_buffer
