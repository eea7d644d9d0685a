"""DecoderGraph: an open decoder graph and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

from chipwise.engine.huge_pages import huge_pages
from chipwise.engine.mapped_files import release_pages
from chipwise.engine.onnxruntime.open_graph import open_graph
from chipwise.errors import EngineError

Dim = int | str | None


class DecoderGraph:
    """A decoder graph in ONNX Runtime, by the inputs, outputs and metadata that chipwise gives it.

    Attributes:
        session: The open graph.
        path: The file it came from.
        inputs: Shape of each input; a name stands for a symbolic dimension.
        metadata: The graph's own settings, e.g. ``chipwise.context``.
        vocab_size: Length of a row of logits.
        layers: Layers with a KV cache; 0 for a graph without one.
    """

    def __init__(self, path: Path, *, threads: int, fuse_qdq: bool = True, yields: bool = False) -> None:
        self.path = path
        with huge_pages():
            self.session: ort.InferenceSession = open_graph(path, threads=threads, fuse_qdq=fuse_qdq, yields=yields)
        release_pages(path.parent)
        self.inputs: dict[str, list[Dim]] = {value.name: value.shape for value in self.session.get_inputs()}
        self.metadata: Mapping[str, str] = self.session.get_modelmeta().custom_metadata_map
        outputs = {value.name: value.shape for value in self.session.get_outputs()}
        missing = sorted({"input_ids", "output_rows"} - set(self.inputs)) + sorted({"logits"} - set(outputs))
        if missing:
            raise EngineError(f"not a decoder graph: it has no {missing[0]}", where=str(path))
        self.layers = sum(name.startswith("past.") and name.endswith(".key") for name in self.inputs)
        self.vocab_size = self._number("logits", outputs["logits"][-1])
        self._require_version()

    @property
    def output_names(self) -> list[str]:
        """The outputs in order."""
        return [value.name for value in self.session.get_outputs()]

    def kv_shape(self) -> tuple[Dim, int, Dim, int]:
        """Shape ``[rows, kv_heads, context, head_dim]`` of a layer's cache.

        Raises:
            EngineError: The graph has no cache.
        """
        if not self.layers:
            raise EngineError("not a decode graph: it has no KV cache", where=str(self.path))
        rows, heads, context, head_dim = self.inputs["past.0.key"]
        return rows, self._number("past.0.key", heads), context, self._number("past.0.key", head_dim)

    def require_context(self, max_context: int) -> None:
        """Check that the graph's positions reach as far as the slots.

        Raises:
            EngineError: They end before.
        """
        limit = self.metadata.get("chipwise.context")
        if limit is not None and max_context > int(limit):
            raise EngineError(
                f"the graph names {limit} positions, not {max_context}", where=str(self.path),
                remedy=f"open it with a context of at most {limit}, or build it for a longer one",
            )  # fmt: skip

    def _require_version(self) -> None:
        needed = self.metadata.get("chipwise.min_onnxruntime")
        if needed is not None and _version(ort.__version__) < _version(needed):
            raise EngineError(
                f"the graph needs onnxruntime {needed}, this is {ort.__version__}, which would compute something else",
                where=str(self.path),
                remedy="install a newer onnxruntime (it may need a newer Python), or build portable graphs",
            )

    def _number(self, name: str, dim: Dim) -> int:
        if not isinstance(dim, int):
            raise EngineError(f"a dimension of {name} is {dim!r}, not a number", where=str(self.path))
        return dim


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
