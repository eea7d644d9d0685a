"""What the fake runtime computes: an ONNX graph by ONNX Runtime, or a sum that shows every value it was fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from chipwise.model.rknn_file import RknnTensor

Arrays = list[npt.NDArray[Any]]
Computes = Callable[[Arrays, Sequence[int]], Arrays]


def by_onnxruntime(path: Path, names: Sequence[str]) -> Computes:
    """An ONNX graph, its inputs in the order of the compiled file."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    types = {one.name: np.int64 if "int64" in one.type else np.float32 for one in session.get_inputs()}

    def compute(inputs: Arrays, pass_through: Sequence[int]) -> Arrays:
        # The real one knows what an input is, and takes other numbers at their value.
        feed = {name: array.astype(types[name]) for name, array in zip(names, inputs, strict=True)}
        found: Arrays = session.run(None, feed)
        return found

    return compute


def by_projection(tensors: Sequence[RknnTensor], width: int) -> Computes:
    """A fixed random projection of the values of all inputs onto ``[1, width]``; steps are values again first."""
    sizes = [int(np.prod(tensor.shape)) for tensor in tensors]
    weights = np.random.default_rng(7).normal(size=(sum(sizes), width)).astype(np.float32)

    def compute(inputs: Arrays, pass_through: Sequence[int]) -> Arrays:
        values = []
        for tensor, array, through in zip(tensors, inputs, pass_through, strict=True):
            if through:
                assert array.dtype == tensor.dtype
                array = (array.astype(np.float32) - (tensor.zero_point or 0)) * (tensor.scale or 1)
            values.append(array.astype(np.float32).ravel())
        return [np.concatenate(values)[None] @ weights]

    return compute
