"""GraphEngine and GraphSession: plain graphs, named arrays in and out, for models that are no decoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
"""Arrays by the name of the graph's input or output."""


@dataclass(frozen=True)
class TensorSpec:
    """An input of a graph.

    Attributes:
        name: Its name.
        shape: Its sizes; None where one is free.
        dtype: Its type of number; None where the runtime converts what it is given.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any] | None


class GraphSession(Protocol):
    """An open graph. Not thread-safe: one thread owns it."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs, in order."""
        ...

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs, in order."""
        ...

    def run(self, feed: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Run once.

        Args:
            feed: One array an input, of its shape. Numbers of another type are converted to the graph's.

        Raises:
            EngineError: An input is missing or unknown, or the runtime failed.
        """
        ...

    def close(self) -> None:
        """Give all memory back. Further calls are errors."""
        ...


@runtime_checkable
class DescribesInputs(Protocol):
    """A graph session that knows what its inputs are."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, in order."""
        ...


@runtime_checkable
class RunsInto(Protocol):
    """A graph session that can leave outputs in memory of the caller's."""

    def run_into(self, feed: Arrays, places: Mapping[str, memoryview]) -> dict[str, npt.NDArray[Any]]:
        """Run once, as ``GraphSession.run``.

        Args:
            feed: One array an input.
            places: Bytes that may be written, by output. One is used if the output's shape is known beforehand and
                fits, and the bytes are aligned for it.

        Returns:
            All outputs; those that are in their place are arrays over its first bytes.

        Raises:
            EngineError: An input is missing or unknown, or the runtime failed.
        """
        ...


@runtime_checkable
class GraphEngine(Protocol):
    """A runtime that opens plain graphs."""

    def open_graph(self, path: Path, *, options: Mapping[str, Any]) -> GraphSession:
        """Open a graph.

        Args:
            path: The graph file.
            options: The engine's own settings as the manifest names them.

        Raises:
            EngineError: The runtime cannot load the graph, or an option is malformed.
        """
        ...
