"""Lost values: a candidate's activations that are not finite or saturate, counted a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.check.constants import constant_array
from chipwise.report.attribution import TensorCount
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Array = npt.NDArray[Any]

_FLOAT16_END = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class _Grid:
    """The integers that a value becomes, ``round(value / scale) + zero_point``."""

    scale: float
    zero_point: int
    low: int
    high: int

    def clipped(self, values: Array) -> int:
        steps = np.rint(values.astype(np.float64) / self.scale) + self.zero_point
        return int(((steps < self.low) | (steps > self.high)).sum())


class LostValues:
    """Counts over the activations of one graph, run whole.

    Args:
        model: The graph. Not to be used otherwise afterwards: its activations become outputs.
        graph: What to call it.
        threads: Threads of a run.
    """

    def __init__(self, model: ir.Model, graph: str, *, threads: int) -> None:
        self._graph = graph
        self._grids = _grids(model.graph)
        watched = list(_activations(model.graph))
        self._given = [str(value.name) for value in model.graph.inputs if str(value.name) in self._grids]
        self._watched = [str(value.name) for value in watched]
        for value in watched:
            if not value.is_graph_output():
                model.graph.outputs.append(value)
        self._runner = Runner(model, threads=threads, label=f"the {graph} graph")
        self._counts: dict[str, tuple[int, int, int]] = {}

    def run(self, feed: Feed) -> None:
        """Count over one run."""
        for name in self._given:
            self._count(name, np.asarray(feed[name]))
        for name, values in self._runner.run(feed, self._watched).items():
            self._count(name, values)

    def result(self) -> Sequence[TensorCount]:
        """The tensors that lost any."""
        return [
            TensorCount(name.removesuffix(".float"), self._graph, *counts)
            for name, counts in self._counts.items()
            if counts[1] or counts[2]
        ]

    def _count(self, name: str, values: Array) -> None:
        if not np.issubdtype(values.dtype, np.floating):
            return
        finite = np.isfinite(values)
        kept = values[finite]
        saturated = self._grids[name].clipped(kept) if name in self._grids else 0
        if values.dtype == np.float16:
            saturated += int((np.abs(kept) >= _FLOAT16_END).sum())
        before = self._counts.get(name, (0, 0, 0))
        found = (values.size, int((~finite).sum()), saturated)
        self._counts[name] = (before[0] + found[0], before[1] + found[1], before[2] + found[2])


def _grids(graph: ir.Graph) -> Mapping[str, _Grid]:
    found = {}
    for node in graph:
        if node.op_type != "QuantizeLinear" or len(node.inputs) < 3 or any(one is None for one in node.inputs[:3]):
            continue
        value, scale, zero = (given for given in node.inputs[:3] if given is not None)
        step, middle = constant_array(scale), constant_array(zero)
        if step is None or middle is None or step.size != 1 or value.is_initializer():
            continue
        info = np.iinfo(middle.dtype)
        found[str(value.name)] = _Grid(float(step), int(middle), info.min, info.max)
    return found


def _activations(graph: ir.Graph) -> Iterator[ir.Value]:
    """What is computed from the graph's inputs; weights that are unpacked are not."""
    moving = set(graph.inputs)
    for node in graph:
        if any(value in moving for value in node.inputs if value is not None):
            moving.update(node.outputs)
            yield from (value for value in node.outputs if value.name)
