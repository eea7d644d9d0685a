"""DecoderInfo: what an open decoder graph says of itself, whatever runtime holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chipwise.errors import EngineError

Dim = int | str | None
Shapes = Mapping[str, tuple[Dim, ...]]
"""Shapes by the name of an input or output; a name stands for a symbolic dimension."""


@dataclass(frozen=True)
class DecoderInfo:
    """A decoder graph's borders and settings, by the names that chipwise gives them.

    Attributes:
        path: The file it came from.
        inputs: Shape of each input.
        outputs: Shape of each output, in order.
        metadata: The graph's own settings, e.g. ``chipwise.context``; empty for formats that hold none.
    """

    path: Path
    inputs: Shapes
    outputs: Shapes
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a graph that is no decoder.

        Raises:
            EngineError: An input or output that every decoder graph has is missing, or its logits have no fixed width.
        """
        missing = sorted({"input_ids"} - set(self.inputs)) + sorted({"logits"} - set(self.outputs))
        if missing:
            raise EngineError(f"not a decoder graph: it has no {missing[0]}", where=str(self.path))
        self._number("logits", self.outputs["logits"][-1])

    @property
    def vocab_size(self) -> int:
        """Length of a row of logits."""
        return self._number("logits", self.outputs["logits"][-1])

    @property
    def layers(self) -> int:
        """Layers with a KV cache; 0 for a graph without one."""
        return sum(name.startswith("past.") and name.endswith(".key") for name in self.inputs)

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

    def _number(self, name: str, dim: Dim) -> int:
        if not isinstance(dim, int):
            raise EngineError(f"a dimension of {name} is {dim!r}, not a number", where=str(self.path))
        return dim
