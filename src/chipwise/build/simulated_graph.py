"""SimulatedDecoderGraph: a compiled decoder graph in its vendor's simulator, run as an engine would run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.engine.decoder_info import DecoderInfo, Dim
from chipwise.errors import EngineError, ToolchainError
from chipwise.toolchain import LiveJob


class SimulatedDecoderGraph:
    """A graph in the process that compiled it; a ``DecoderRunner``.

    Args:
        job: The process.
        source: The ONNX file that it compiled, for the graph's borders.
    """

    def __init__(self, job: LiveJob, source: Path) -> None:
        model = ir.load(source)
        self._job = job
        self._dtypes = {str(value.name): _numpy(value) for value in model.graph.inputs}
        self.info = DecoderInfo(source, _shapes(model.graph.inputs), _shapes(model.graph.outputs), model.metadata_props)

    def run(self, feeds: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[Any]]:
        """Run once; see ``DecoderRunner.run``."""
        try:
            found = self._job.call([feeds[name].astype(dtype, copy=False) for name, dtype in self._dtypes.items()])
        except ToolchainError as e:
            raise EngineError(f"the simulator failed ({e.what})", where=str(self.info.path)) from e
        if len(found) != len(self.info.outputs):
            raise EngineError(
                f"the simulator returned {len(found)} outputs, the graph has {len(self.info.outputs)}",
                where=str(self.info.path),
            )
        return dict(zip(self.info.outputs, found, strict=True))

    def close(self) -> None:
        """Nothing: the process ends with the build, and other sessions use it until then."""


def _shapes(values: Iterable[ir.Value]) -> dict[str, tuple[Dim, ...]]:
    return {
        str(value.name): tuple(dim if isinstance(dim, int) else None for dim in value.shape or ()) for value in values
    }


def _numpy(value: ir.Value) -> np.dtype[Any]:
    return value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
