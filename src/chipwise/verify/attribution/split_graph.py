"""SplitGraph: one graph of a decoder cut into parts that run one at a time. Host side only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner
from chipwise.verify.attribution.boundaries import cuttable
from chipwise.verify.attribution.layer import Part, parts_of

Values = Mapping[str, npt.NDArray[Any]]
"""Boundary values by name."""


class SplitGraph:
    """A decoder's graph in parts; each opens when it first runs, without optimisation, its weights mapped.

    Args:
        path: The ONNX file.
        threads: Threads of a run.
        coarse: Whether attention is one part; see ``parts_of``.

    Attributes:
        model: The graph as it is cut.
        parts: The parts in the order in which they run.

    Raises:
        GraphError: The file holds no decoder whose layers are named.
    """

    def __init__(self, path: Path, *, threads: int = 2, coarse: bool = False) -> None:
        self.path, self._threads = path, threads
        self.model = cuttable(path)
        self._values = {str(value.name): value for node in self.model.graph for value in node.outputs}
        self.parts: Sequence[Part] = parts_of(self._values, where=str(path), coarse=coarse)
        self._order = {node: place for place, node in enumerate(self.model.graph)}
        self._runners: dict[str, Runner] = {}

    def run(self, part: Part, values: Values, feed: Feed) -> dict[str, npt.NDArray[Any]]:
        """What a part computes of boundary values, and of the graph's inputs where it reads them.

        Raises:
            GraphError: The part reads something that is no boundary.
            RewriteError: ONNX Runtime refuses the part or fails on it.
        """
        runner = self._runners.get(part.name)
        if runner is None:
            runner = self._runners[part.name] = Runner(
                self._cut(part), threads=self._threads, yields=True, label=f"{part.name} of {self.path}"
            )
        known = {**feed, **values}
        return runner.run({name: known[name] for name in runner.input_names}, part.outputs)

    def _cut(self, part: Part) -> ir.Model:
        borders = [self._values[name] for name in part.inputs]
        outputs = [self._values[name] for name in part.outputs]
        inputs, constants, nodes = _between(borders, outputs)
        nodes.sort(key=self._order.__getitem__)
        view = ir.GraphView(
            inputs, outputs, nodes=nodes, initializers=constants, name=part.name,
            opset_imports=self.model.graph.opset_imports,
        )  # fmt: skip
        cut = view.clone()
        for value in (*cut.inputs, *cut.outputs):
            if value.dtype is None:
                value.type = ir.TensorType(ir.DataType.FLOAT)
        return ir.Model(cut, ir_version=self.model.ir_version)


def _between(
    borders: Sequence[ir.Value], outputs: Iterable[ir.Value]
) -> tuple[list[ir.Value], list[ir.Value], list[ir.Node]]:
    """What outputs are computed from: borders and graph inputs, constants, and the nodes behind them in no order."""
    stops, seen = set(borders), set[ir.Value]()
    inputs: list[ir.Value] = []
    constants: list[ir.Value] = []
    nodes: dict[ir.Node, None] = {}
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = value.producer()
        if value in stops:
            inputs.append(value)
        elif value.is_initializer():
            constants.append(value)
        elif producer is None:
            inputs.append(value)
        else:
            nodes[producer] = None
            waiting += [one for one in producer.inputs if one is not None]
    return inputs, constants, list(nodes)
