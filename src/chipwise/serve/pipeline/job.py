"""Job: one request on its way through a pipeline, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from chipwise.serve.request.events import Failure


@dataclass(frozen=True)
class Done:
    """A request is complete.

    Attributes:
        value: What the last stage made of it.
    """

    value: Any


Outcome: TypeAlias = Done | Failure


@dataclass(eq=False)
class Place:
    """Where one value lies between two stages, with the buffer that belongs there."""

    buffer: Any


@dataclass(eq=False)
class Job:
    """A request. Its holder may only cancel it; the rest belongs to the pipeline.

    Attributes:
        value: What the latest stage made of it.
        done: Takes its outcome, from a thread of the pipeline; it neither blocks nor raises.
        place: Where its value lies; None before the first stage.
    """

    value: Any
    done: Callable[[Outcome], None]
    place: Place | None = None
