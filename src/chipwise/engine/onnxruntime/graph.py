"""OnnxGraphSession: any ONNX graph in ONNX Runtime, by the names of its inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from chipwise.engine.graph_session import Arrays, TensorSpec
from chipwise.engine.onnxruntime.open_graph import open_graph, stepping
from chipwise.errors import EngineError

_NUMPY_NAMES = {"float": "float32", "double": "float64"}


class OnnxGraphSession:
    """An open graph."""

    def __init__(self, path: Path, *, threads: int, fuse_qdq: bool = True) -> None:
        self._session: ort.InferenceSession | None = open_graph(path, threads=threads, fuse_qdq=fuse_qdq)
        self._inputs = tuple(
            TensorSpec(value.name, tuple(map(_size, value.shape)), _numpy_type(value.type))
            for value in self._session.get_inputs()
        )
        self._types = {value.name: value.dtype for value in self._inputs}
        outputs = self._session.get_outputs()
        self._outputs = tuple(value.name for value in outputs)
        self._given = {value.name: (tuple(map(_size, value.shape)), value.type) for value in outputs}

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs, in order."""
        return tuple(self._types)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What the inputs are, in order."""
        return self._inputs

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs, in order."""
        return self._outputs

    def run(self, feed: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Run once; see ``GraphSession.run``."""
        session, ready = self._ready(feed)
        with stepping():
            return dict(zip(self._outputs, session.run(list(self._outputs), ready), strict=True))

    def run_into(self, feed: Arrays, places: Mapping[str, memoryview]) -> dict[str, npt.NDArray[Any]]:
        """Run once, with outputs in memory of the caller's; see ``RunsInto.run_into``."""
        session, ready = self._ready(feed)
        laid = {name: array for name, place in places.items() if (array := self._laid(name, place)) is not None}
        # The binding holds addresses only: the arrays live here until the run is over.
        inputs = {name: np.ascontiguousarray(array) for name, array in ready.items()}
        with stepping():
            binding = session.io_binding()
            for name, array in inputs.items():
                binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            for name in self._outputs:
                if (over := laid.get(name)) is None:
                    binding.bind_output(name)
                else:
                    binding.bind_output(name, "cpu", 0, over.dtype, over.shape, over.ctypes.data)
            session.run_with_iobinding(binding)
            found = dict(zip(self._outputs, binding.get_outputs(), strict=True))
            return {name: laid[name] if name in laid else value.numpy() for name, value in found.items()}

    def _laid(self, name: str, place: memoryview) -> npt.NDArray[Any] | None:
        """An output as an array over a place; None if it cannot be computed there."""
        shape, kind = self._given.get(name, ((None,), ""))
        sizes = [size for size in shape if size is not None]
        if len(sizes) < len(shape):
            return None
        dtype, count = _numpy_type(kind), math.prod(sizes)
        if dtype.hasobject or count == 0 or count * dtype.itemsize > place.nbytes:
            return None
        array: npt.NDArray[Any] = np.frombuffer(place, dtype, count).reshape(sizes)
        return array if array.flags.aligned and array.flags.writeable else None

    def _ready(self, feed: Arrays) -> tuple[ort.InferenceSession, dict[str, npt.NDArray[Any]]]:
        """The open graph, and what it is fed in its own types."""
        if self._session is None:
            raise EngineError("the session is closed")
        missing, unknown = sorted(set(self._types) - set(feed)), sorted(set(feed) - set(self._types))
        if missing or unknown:
            raise EngineError(
                f"the graph has no input {unknown[0]!r}" if unknown else f"the input {missing[0]!r} is missing",
                where="feed",
                remedy=f"give the inputs {', '.join(self._types)}",
            )
        return self._session, {
            name: np.asarray(feed[name]).astype(dtype, copy=False) for name, dtype in self._types.items()
        }

    def close(self) -> None:
        """Give all memory back."""
        self._session = None


def _size(dim: object) -> int | None:
    """A size; None for one that has only a name, or not even that."""
    return dim if isinstance(dim, int) and dim >= 0 else None


def _numpy_type(ort_type: str) -> np.dtype[Any]:
    """The numpy type of ``tensor(float)`` and the like."""
    inner = ort_type[len("tensor(") : -1] if ort_type.startswith("tensor(") else ort_type
    try:
        return np.dtype(_NUMPY_NAMES.get(inner, inner))
    except TypeError as e:
        raise EngineError(f"an input of type {ort_type} cannot be fed", where="graph") from e
