"""Hessians of linear layers: how their inputs vary together, gathered by running the reference on real prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime as ort

from chipwise.errors import EngineError

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class LinearInput:
    """The value that feeds one or more linear layers.

    Attributes:
        value: Its name in the graph.
        width: Its channels.
        weights: Names of the weights it is multiplied with.
    """

    value: str
    width: int
    weights: tuple[str, ...]


def linear_inputs(model: ir.Model) -> list[LinearInput]:
    """The inputs of every MatMul or Gemm with a constant weight, in the order of the graph."""
    found: dict[str, LinearInput] = {}
    for node in model.graph:
        weight = node.inputs[1] if node.op_type in ("MatMul", "Gemm") else None
        x = node.inputs[0]
        if weight is None or not weight.is_initializer() or weight.shape is None or x is None or x.name is None:
            continue
        before = found.get(x.name)
        names = (*(before.weights if before else ()), str(weight.name))
        # Gemm has its weight as [out, in], MatMul as [in, out].
        width = int(weight.shape.numpy()[1 if node.op_type == "Gemm" else 0])
        found[x.name] = LinearInput(x.name, width, names)
    return list(found.values())


class HessianSource:
    """Hands out the Hessian of a weight's inputs, gathering those of several layers in one run over the prompts.

    Weights are asked for in the order of the graph. Memory stays under ``max_bytes``: when a weight is asked for whose
    Hessian is not there, those held are dropped and the next ones gathered.
    """

    def __init__(
        self,
        graph_path: Path,
        prompts: Sequence[Sequence[int]],
        *,
        max_bytes: int = 512 << 20,
        threads: int = 0,
        progress: Progress | None = None,
    ) -> None:
        """Nothing is run before the first weight is asked for.

        Args:
            graph_path: A fused decoder in float32 whose weights have the names that will be asked for.
            prompts: Token ids of calibration prompts, at least one.
            max_bytes: Memory the Hessians may take at once.
            threads: Threads of a run; 0 for one a core.
            progress: Told the prompts done of each gathering.
        """
        if not prompts:
            raise EngineError("no calibration prompts", remedy="give --queries a file with at least one query")
        self._path, self._prompts, self._threads = graph_path, prompts, threads
        self._max_bytes, self._progress = max_bytes, progress
        self._inputs = linear_inputs(ir.load(graph_path))
        self._held: dict[str, npt.NDArray[np.float32]] = {}

    def __call__(self, weight: str) -> npt.NDArray[np.float32] | None:
        """Sum of x x^T over a weight's inputs, float32 ``[width, width]``; None if the graph has no such weight."""
        index = next((i for i, one in enumerate(self._inputs) if weight in one.weights), None)
        if index is None:
            return None
        name = self._inputs[index].value
        if name not in self._held:
            self._held = {}
            self._gather(list(self._next(index)))
        return self._held[name]

    def _next(self, index: int) -> Iterator[LinearInput]:
        used = 0
        for one in self._inputs[index:]:
            used += one.width * one.width * 4
            if used > self._max_bytes and one is not self._inputs[index]:
                return
            yield one

    def _gather(self, wanted: list[LinearInput]) -> None:
        session, feeds = _tapped(self._path, [one.value for one in wanted], self._threads)
        self._held = {one.value: np.zeros((one.width, one.width), np.float32) for one in wanted}
        for done, prompt in enumerate(self._prompts):
            values = session.run([one.value for one in wanted], feeds(prompt))
            for one, value in zip(wanted, values, strict=True):
                x = value.reshape(-1, one.width)
                self._held[one.value] += x.T @ x
            if self._progress:
                self._progress(done + 1, len(self._prompts))


def _tapped(
    path: Path, names: list[str], threads: int
) -> tuple[ort.InferenceSession, Callable[[Sequence[int]], dict[str, npt.NDArray[np.generic]]]]:
    """The graph with some inner values as its outputs, and a function that makes its inputs from a prompt."""
    model = ir.load(path)
    values = {value.name: value for node in model.graph for value in node.outputs}
    model.graph.outputs.clear()
    for name in names:
        values[name].dtype = values[name].dtype or ir.DataType.FLOAT
        model.graph.outputs.append(values[name])
    tapped = path.with_name(f".{path.stem}.tapped.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        ir.save(model, tapped)
        session = ort.InferenceSession(str(tapped), options, providers=["CPUExecutionProvider"])
    finally:
        tapped.unlink(missing_ok=True)
    inputs = {value.name: value.shape for value in session.get_inputs()}

    def feeds(prompt: Sequence[int]) -> dict[str, npt.NDArray[np.generic]]:
        n = len(prompt)
        made: dict[str, npt.NDArray[np.generic]] = {
            "input_ids": np.array([prompt], np.int64),
            "output_rows": np.arange(n, dtype=np.int64),
            "seqlens_k": np.array([n - 1], np.int32),
            "total_sequence_length": np.array(n, np.int32),
        }
        for name, shape in inputs.items():
            if name.startswith("past."):
                made[name] = np.zeros((1, shape[1], n, shape[3]), np.float32)
        return {name: array for name, array in made.items() if name in inputs}

    return session, feeds
