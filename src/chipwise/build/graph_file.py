"""GraphFile: one graph on disk, as an engine opens it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from chipwise.build.graph_files import ENGINE
from chipwise.engine.graph_session import GraphEngine, GraphSession
from chipwise.engine.registry import get_engine
from chipwise.errors import EngineError
from chipwise.model.onnx_file_writer import save_graph
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.quant.seen_ranges import SeenRanges


@dataclass(frozen=True)
class GraphFile:
    """A graph on disk.

    Attributes:
        path: The ONNX file.
        weights: The file beside it with its large weights; None if they are in the graph.
        options: What the engine must know of it.
        schemes: How each weight is stored.
        emulates: Name of the chip whose arithmetic it emulates; None if it is what is deployed.
        ranges: The calibrated ranges of activations; None if they stay in floating point.
    """

    path: Path
    weights: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    schemes: Mapping[str, TensorScheme] = field(default_factory=dict)
    emulates: str | None = None
    ranges: SeenRanges | None = None

    @property
    def size_bytes(self) -> int:
        """Size of graph and weights."""
        return self.path.stat().st_size + (self.weights.stat().st_size if self.weights else 0)

    @classmethod
    def save(cls, model: ir.Model, folder: Path, stem: str, schemes: Mapping[str, TensorScheme]) -> GraphFile:
        """Write a graph and its weights.

        Raises:
            OutputError: The disk does not take it.
        """
        saved = save_graph(model, folder, stem)
        return cls(saved.path, saved.weights, schemes=schemes)

    def open(self, threads: int) -> GraphSession:
        """Open it in its engine.

        Raises:
            EngineError: The runtime refuses it.
        """
        engine = get_engine(ENGINE)
        if not isinstance(engine, GraphEngine):
            raise EngineError(f"the engine {ENGINE!r} runs no plain graphs")
        return engine.open_graph(self.path, options={**self.options, "threads": threads})


def all_float(model: ir.Model) -> dict[str, TensorScheme]:
    """Every floating-point weight of a graph as it is."""
    return {str(name): FLOAT32 for name, value in model.graph.initializers.items() if value.dtype == ir.DataType.FLOAT}
