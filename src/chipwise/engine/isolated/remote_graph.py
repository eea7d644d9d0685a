"""RemoteGraph: the plain graph that is open in one worker, until that is lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.graph_session import Arrays, TensorSpec
from chipwise.engine.isolated.array_places import read_arrays, write_arrays
from chipwise.engine.isolated.process import EngineProcess
from chipwise.engine.isolated.remote_engine import RemoteEngine
from chipwise.engine.isolated.wire import Message

# A run is given this many times what the slowest so far took, and never less than the floor.
_SLOWER = 10.0
_FLOOR_S = 30.0


@dataclass(frozen=True)
class GraphOpening:
    """What a worker is to open.

    Attributes:
        engine: The engine's name in the registry.
        path: The graph file.
        options: The engine's own settings; JSON.
    """

    engine: str
    path: Path
    options: Mapping[str, Any]

    def message(self) -> Message:
        """It as a message."""
        return {"engine": self.engine, "graph": str(self.path.absolute()), "options": dict(self.options)}


@dataclass(frozen=True)
class GraphFacts:
    """What a graph in another process says of itself.

    Attributes:
        input_names: Its inputs, in order.
        output_names: Its outputs, in order.
        inputs: What its inputs are; None if its session does not know.
    """

    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    inputs: tuple[TensorSpec, ...] | None


class RunLimit:
    """From when on a run counts as a hang.

    Args:
        fixed_s: The limit of every run; None judges by what runs took.
    """

    def __init__(self, fixed_s: float | None = None) -> None:
        self._fixed_s, self._slowest_s = fixed_s, 0.0

    @property
    def seconds(self) -> float:
        """The limit of the next run."""
        return max(_FLOOR_S, _SLOWER * self._slowest_s) if self._fixed_s is None else self._fixed_s

    def learn(self, duration_s: float) -> None:
        """A run took so long."""
        self._slowest_s = max(self._slowest_s, duration_s)


class RemoteGraph(RemoteEngine):
    """The graph of one worker. Once that is lost, every call raises EngineLostError.

    Args:
        process: The worker, just started.
        opening: What it opens.
        limit: How long runs may take; it learns.
        start_timeout_s: How long opening may take.
    """

    def __init__(self, process: EngineProcess, opening: GraphOpening, limit: RunLimit, start_timeout_s: float) -> None:
        super().__init__(process)
        self._limit = limit
        answer = self._call(opening.message(), start_timeout_s, f"it did not open within {start_timeout_s:g} s")
        self.facts: Final = _facts(answer)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs, in order."""
        return self.facts.input_names

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs, in order."""
        return self.facts.output_names

    def run(self, feed: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Run once; see ``GraphSession.run``."""
        self._require_alive()
        memory, limit_s = self.process.memory, self._limit.seconds
        places, end = write_arrays(memory, {name: np.asarray(array) for name, array in feed.items()})
        started_s = time.monotonic()
        asked = {"do": "run", "inputs": places, "end": end}
        answer = self._call(asked, limit_s, f"a run took longer than {limit_s:g} s and counts as a hang")
        self._limit.learn(time.monotonic() - started_s)
        # Copies, as the next run writes there while these are still sent.
        return {name: array.copy() for name, array in read_arrays(memory, answer["outputs"]).items()}


def _facts(answer: Mapping[str, Any]) -> GraphFacts:
    specs = answer["inputs"]
    inputs = (
        None
        if specs is None
        else tuple(
            TensorSpec(name, tuple(shape), None if dtype is None else np.dtype(dtype)) for name, shape, dtype in specs
        )
    )
    return GraphFacts(tuple(answer["input_names"]), tuple(answer["output_names"]), inputs)
