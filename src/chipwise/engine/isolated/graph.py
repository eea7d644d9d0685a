"""IsolatedGraph: a plain graph whose engine runs in a process that is replaced when it is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from chipwise.engine.graph_session import Arrays, GraphSession, TensorSpec
from chipwise.engine.isolated.keeper import Keeper
from chipwise.engine.isolated.process import EngineProcess
from chipwise.engine.isolated.remote_graph import GraphFacts, GraphOpening, RemoteGraph, RunLimit
from chipwise.engine.isolated.settings import Isolation
from chipwise.engine.restarts import EngineState
from chipwise.errors import EngineError, EngineLostError


class IsolatedGraph:
    """A graph session in another process. A run that loses it fails; the next waits for the process after it.

    Args:
        keeper: Keeps the process up. It is closed with the session.
        facts: What the graph says of itself.
    """

    def __init__(self, keeper: Keeper[RemoteGraph], facts: GraphFacts) -> None:
        self.input_names: Final = facts.input_names
        self.output_names: Final = facts.output_names
        self._keeper = keeper
        self._remote: RemoteGraph | None = keeper.current()
        self._closed = False

    @property
    def state(self) -> EngineState:
        """See ``HasProcess.state``."""
        return self._keeper.state

    @property
    def restarts(self) -> int:
        """See ``HasProcess.restarts``."""
        return self._keeper.restarts

    @property
    def trouble(self) -> str:
        """See ``HasProcess.trouble``."""
        return self._keeper.trouble

    def run(self, feed: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Run once; see ``GraphSession.run``.

        Raises:
            EngineLostError: The process was lost in this run.
            EngineDownError: It was lost before, and the next one does not come.
        """
        if self._closed:
            raise EngineError("the session is closed")
        if self._remote is not None and not self._remote.process.alive:
            # Lost between two runs: nothing of theirs is gone.
            self._remote.process.loss()
            self._let_go()
        if self._remote is None:
            self._remote = self._keeper.await_current()
        try:
            return self._remote.run(feed)
        except EngineLostError:
            self._let_go()
            raise

    def close(self) -> None:
        """End the process and give all memory back."""
        self._closed = True
        self._keeper.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._remote is not None:
            self._remote.process.dispose()
            self._remote = None


class DescribedIsolatedGraph(IsolatedGraph):
    """One that knows what its inputs are: see ``DescribesInputs``."""

    def __init__(self, keeper: Keeper[RemoteGraph], facts: GraphFacts) -> None:
        super().__init__(keeper, facts)
        self.inputs: Final[tuple[TensorSpec, ...]] = facts.inputs or ()


def open_isolated_graph(
    engine: str,
    path: Path,
    *,
    options: Mapping[str, Any],
    isolation: Isolation,
    prove: Callable[[GraphSession], None],
) -> IsolatedGraph:
    """Open a graph in a process that is watched. This process never loads the engine's runtime.

    Args:
        engine: The engine's name in the registry.
        path: The graph file.
        options: The engine's own settings.
        isolation: How its process is watched.
        prove: Run in each process before it is used, after a restart too.

    Raises:
        InputError: The options are no JSON, or what the engine itself raises.
        EngineLostError: The process ended or hung while it opened.
        ChipwiseError: Whatever the engine, or the proof, raises.
    """
    opening, limit = GraphOpening(engine, path, options), RunLimit(isolation.step_timeout_s)

    def connect(process: EngineProcess, start_s: float) -> RemoteGraph:
        return RemoteGraph(process, opening, limit, start_s)

    keeper = Keeper(connect, isolation, prove)
    try:
        facts: GraphFacts = keeper.facts
        return IsolatedGraph(keeper, facts) if facts.inputs is None else DescribedIsolatedGraph(keeper, facts)
    except BaseException:
        keeper.close()
        raise
