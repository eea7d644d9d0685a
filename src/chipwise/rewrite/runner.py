"""Runner: runs an ONNX model in memory as it is written, without optimisation and without writing it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime as ort

from chipwise.check.weightless import weightless
from chipwise.errors import InputError, RewriteError
from chipwise.rewrite.pass_ import Feed

Array = npt.NDArray[Any]

_FATAL = 4  # onnxruntime's log level that keeps its own lines off the terminal; the error comes as an exception

_FOLDER_KEY = "session.model_external_initializers_file_folder_path"


class Runner:
    """An open session of one model. Weights in files are mapped from there: nothing is copied or saved.

    Args:
        model: The model. It is not changed.
        threads: Threads a run may use.
        yields: Whether threads let go of their cores between runs: for one of many that take turns.
        label: What to call the model in errors, e.g. ``the model after mask_constant``.

    Raises:
        RewriteError: ONNX Runtime refuses the model.
    """

    def __init__(self, model: ir.Model, *, threads: int = 2, yields: bool = False, label: str = "the model") -> None:
        self._label = label
        bare = weightless(model)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = threads
        options.log_severity_level = _FATAL
        if yields:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # One or two runs do not earn back a second copy of the weights, nor an arena that keeps what it once had.
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.enable_cpu_mem_arena = False
        if bare.folder is not None:
            options.add_session_config_entry(_FOLDER_KEY, str(bare.folder.absolute()))
        # The session reads these arrays for as long as it lives, so they live as long as it does.
        self._weights = {name: _ort_value(tensor) for name, tensor in bare.in_memory.items()}
        if self._weights:
            options.add_external_initializers(list(self._weights), list(self._weights.values()))
            for name, value in self._weights.items():
                options.add_initializer(name, value)  # without this it would keep a copy
        try:
            self._session = ort.InferenceSession(
                bare.proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as e:  # onnxruntime's errors share no base class but Exception
            raise RewriteError(f"{label} does not load ({brief(e)})") from e
        self._types = {value.name: _numpy_type(value.type) for value in self._session.get_inputs()}
        self._ranks = {value.name: len(value.shape) for value in self._session.get_inputs()}

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return list(self._types)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [value.name for value in self._session.get_outputs()]

    def run(self, feed: Feed, outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run once.

        An array of another type than the model declares is converted, and one without dimensions becomes one of size 1
        where the model wants that: the same numbers go in before and after a pass that changes an input's type or rank.

        Raises:
            InputError: An input is missing or unknown.
            RewriteError: The model fails on this input.
        """
        unknown = sorted(set(feed) - set(self._types))
        missing = sorted(set(self._types) - set(feed))
        if unknown or missing:
            raise InputError(
                f"the sample {'lacks ' + ', '.join(missing) if missing else 'has unknown ' + ', '.join(unknown)}",
                where=self._label,
                remedy=f"give each sample the inputs {', '.join(self._types)}",
            )
        ready = {
            name: with_rank(np.asarray(feed[name]).astype(dtype, copy=False), self._ranks[name])
            for name, dtype in self._types.items()
        }
        names = list(outputs) if outputs is not None else self.output_names
        try:
            values = self._session.run(names, ready)
        except Exception as e:  # onnxruntime's errors share no base class but Exception
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in ready.items())
            raise RewriteError(f"{self._label} fails on inputs {shapes} ({brief(e)})") from e
        return dict(zip(names, values, strict=True))


def with_rank(array: Array, rank: int) -> Array:
    """A number without dimensions as ``[1]`` where one dimension is wanted; anything else as it is."""
    return array.reshape(1) if array.ndim == 0 and rank == 1 else array


def brief(error: BaseException, limit: int = 240) -> str:
    """An exception's text in one line. A long one keeps its end: onnxruntime writes source files first."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else f"...{text[-limit:]}"


def _ort_value(tensor: ir.TensorProtocol) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor.numpy()))


def _numpy_type(ort_type: str) -> np.dtype[Any]:
    """The numpy type of ``tensor(float)`` and the like."""
    inner = ort_type.removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype({"float": "float32", "double": "float64"}.get(inner, inner))
    except TypeError as e:
        raise RewriteError(
            f"an input of type {ort_type} cannot be fed", remedy="cast it to float32 or int64 at the input"
        ) from e
