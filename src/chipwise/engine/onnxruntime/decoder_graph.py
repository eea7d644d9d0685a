"""DecoderGraph: an open decoder graph in ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from chipwise.engine.decoder_info import DecoderInfo
from chipwise.engine.huge_pages import huge_pages
from chipwise.engine.mapped_files import read_once
from chipwise.engine.onnxruntime.open_graph import open_graph, stepping
from chipwise.errors import EngineError


class DecoderGraph:
    """A decoder graph in ONNX Runtime; a ``DecoderRunner``.

    Attributes:
        session: The open graph.
        info: What it says of itself.
    """

    def __init__(self, path: Path, *, threads: int, fuse_qdq: bool = True, yields: bool = False) -> None:
        with read_once(path.parent), huge_pages():
            self.session: ort.InferenceSession = open_graph(path, threads=threads, fuse_qdq=fuse_qdq, yields=yields)
        self.info = DecoderInfo(
            path,
            inputs={value.name: tuple(value.shape) for value in self.session.get_inputs()},
            outputs={value.name: tuple(value.shape) for value in self.session.get_outputs()},
            metadata=self.session.get_modelmeta().custom_metadata_map,
        )
        self._output_names = list(self.info.outputs)
        self._require_version()

    def run(self, feeds: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.float32]]:
        """Run once; see ``DecoderRunner.run``."""
        with stepping():
            return dict(zip(self._output_names, self.session.run(self._output_names, feeds), strict=True))

    def close(self) -> None:
        """Let go of the graph: its memory goes with the last who holds this."""

    def _require_version(self) -> None:
        needed = self.info.metadata.get("chipwise.min_onnxruntime")
        if needed is not None and version(ort.__version__) < version(needed):
            raise EngineError(
                f"the graph needs onnxruntime {needed}, this is {ort.__version__}, which would compute something else",
                where=str(self.info.path),
                remedy="install a newer onnxruntime (it may need a newer Python), or build portable graphs",
            )


def version(text: str) -> tuple[int, ...]:
    """A version's first two numbers, to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
