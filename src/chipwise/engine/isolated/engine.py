"""IsolatedEngine: opens another engine's sessions in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from chipwise.engine.isolated.keeper import Keeper
from chipwise.engine.isolated.process import EngineProcess
from chipwise.engine.isolated.remote import Opening, RemoteSession
from chipwise.engine.isolated.session import IsolatedSession, SavingIsolatedSession
from chipwise.engine.isolated.settings import Isolation
from chipwise.engine.isolated.step_limit import StepLimit
from chipwise.engine.session import Session
from chipwise.errors import EngineError

Prove = Callable[[Session], None]
"""Runs a self-test in a fresh session, and raises what is wrong."""


def _nothing(session: Session) -> None:
    """Proves nothing."""


class IsolatedEngine:
    """An engine of the registry, in a process that is watched. This process never loads its runtime or its weights.

    Args:
        name: The engine's name in the registry.
        isolation: How its process is watched.
        prove: Run in each process before it is used, after a restart too.
    """

    def __init__(self, name: str, isolation: Isolation | None = None, prove: Prove = _nothing) -> None:
        self.name: Final = name
        self._isolation = isolation or Isolation()
        self._prove = prove

    def open(
        self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]
    ) -> IsolatedSession:
        """Open a decoder; see ``Engine.open``.

        Raises:
            InputError: The options are no JSON, or what the engine itself raises.
            EngineLostError: The process ended or hung while it opened.
            ChipwiseError: Whatever the engine, or the proof, raises.
        """
        opening, limit = (
            Opening(self.name, files, n_slots, max_context, options),
            StepLimit(self._isolation.step_timeout_s),
        )

        def connect(process: EngineProcess, start_s: float) -> RemoteSession:
            return RemoteSession(process, opening, limit, start_s)

        keeper = Keeper(connect, self._isolation, self._prove)
        facts = keeper.facts
        if facts is None:
            raise EngineError("the engine opened without saying as what")
        try:
            return (SavingIsolatedSession if facts.saves else IsolatedSession)(keeper, facts)
        except BaseException:
            keeper.close()
            raise
