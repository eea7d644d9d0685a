"""Engine and Session: the interface every runtime implements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput


class Session(Protocol):
    """An open decoder with a fixed pool of KV slots. Not thread-safe: one thread owns it.

    All memory is taken when it opens; a step allocates nothing.
    """

    @property
    def n_slots(self) -> int:
        """KV slots, the most sequences held at once."""
        ...

    @property
    def max_context(self) -> int:
        """Tokens a slot holds."""
        ...

    @property
    def vocab_size(self) -> int:
        """Length of a row of logits."""
        ...

    @property
    def max_step_tokens(self) -> int:
        """The most tokens a row of one step may bring; longer prompts are fed in chunks."""
        ...

    def step(self, batch: Batch) -> StepOutput:
        """Run one step and extend the slots' KV by the batch's tokens.

        Raises:
            EngineError: The runtime failed; the slots of the batch hold nothing defined any more.
        """
        ...

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Copy the first ``tokens`` tokens of one slot's KV over another's."""
        ...

    def close(self) -> None:
        """Give all memory back. Further calls are errors."""
        ...


@runtime_checkable
class PaddedPrefill(Protocol):
    """A session whose graph for prompts has a fixed length: a shorter start of a sequence costs as much."""

    @property
    def whole_tokens(self) -> int:
        """That length; 1 if it is not fixed."""
        ...


@runtime_checkable
class SavesSlots(Session, Protocol):
    """A session whose KV can be taken out of a slot and put back later, in another process too."""

    def save_slot(self, slot: int, tokens: int) -> npt.NDArray[np.float32]:
        """A copy of the KV of a slot's first tokens, of whatever shape.

        Raises:
            EngineError: There is no such slot, or it holds fewer tokens.
        """
        ...

    def load_slot(self, slot: int, kv: npt.NDArray[np.float32]) -> None:
        """Put KV that ``save_slot`` gave into a slot.

        Raises:
            EngineError: It is another model's, or does not fit.
        """
        ...


@runtime_checkable
class ChecksDrafts(Protocol):
    """A session that computes several tokens of a row over its past at once, with the logits after each.

    So it can check what somebody guessed a row will say. The logits and the KV have the bits that they have when the
    tokens come one a step: a session that cannot promise this has no such limits, and is never asked. Tokens that turn
    out wrong stay behind the row's past, where the next step overwrites them.
    """

    @property
    def max_draft_tokens(self) -> int:
        """The most tokens behind a row's first one; 0 if the graph takes none."""
        ...

    @property
    def max_draft_rows(self) -> int:
        """The most rows that one run computes if they bring several tokens each, padded to the longest."""
        ...


# What follows looks at attributes: from Python 3.12 on isinstance does not see what a wrapping session passes on.


def whole_tokens(session: Session) -> int:
    """The length of a session's graph for prompts, see ``PaddedPrefill``; 1 if it is not fixed."""
    return int(getattr(session, "whole_tokens", 1))


def saves_slots(session: Session) -> TypeGuard[SavesSlots]:
    """Whether KV can be taken out of a session's slots and put back, see ``SavesSlots``."""
    return hasattr(session, "save_slot") and hasattr(session, "load_slot")


def draft_limits(session: Session) -> tuple[int, int]:
    """The most draft tokens a row and rows of a step of a session, see ``ChecksDrafts``; zeros if it checks none."""
    return int(getattr(session, "max_draft_tokens", 0)), int(getattr(session, "max_draft_rows", 0))


class Engine(Protocol):
    """A runtime that opens graphs."""

    name: str

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open a decoder.

        Args:
            files: The graph files by role (``decoder``; or ``prefill`` and ``decode`` for static graphs).
            n_slots: KV slots to hold.
            max_context: Tokens a slot holds.
            options: The engine's own settings as the manifest names them (``threads``, ...).

        Raises:
            EngineError: The runtime cannot load the graph.
            DependencyError: The runtime's package is not installed.
        """
        ...
