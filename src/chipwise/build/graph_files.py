"""GraphFiles: the graphs of a decoder on disk, which an engine opens together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from chipwise.engine import Session
from chipwise.engine.registry import get_engine
from chipwise.model.scheme import TensorScheme
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.pass_ import Feed

ENGINE = "onnxruntime"


@dataclass(frozen=True)
class GraphFiles:
    """Graphs on disk that an engine opens together.

    Attributes:
        files: The graphs by role, ``decoder`` or ``prefill`` and ``decode``.
        weights: The file beside them with the weights of all.
        options: What the engine must know of them.
        schemes: How each weight is stored.
        context: Tokens that static graphs hold; None where the cache is as long as it is asked for.
        emulates: Name of the chip whose arithmetic the graphs emulate; None if they are what is deployed.
        ranges: The calibrated ranges of activations; None if they stay in floating point.
    """

    files: Mapping[str, Path]
    weights: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    schemes: Mapping[str, TensorScheme] = field(default_factory=dict)
    context: int | None = None
    emulates: str | None = None
    ranges: SeenRanges | None = None

    @property
    def reads_prompts(self) -> Path:
        """The graph that reads a prompt."""
        return self.files["decoder"] if "decoder" in self.files else self.files["prefill"]

    @property
    def weights_bytes(self) -> int:
        """Size of the weights."""
        return self.weights.stat().st_size

    def feeds(self, prompts: Sequence[Sequence[int]]) -> list[Feed]:
        """The inputs of ``reads_prompts`` for each prompt that it takes."""
        graph = ir.load(self.reads_prompts).graph
        shape = next(value.shape for value in graph.inputs if value.name == "input_ids")
        limit = shape[1] if shape is not None and isinstance(shape[1], int) else None
        return [prompt_feed(graph, prompt) for prompt in prompts if limit is None or len(prompt) <= limit]

    def open(self, *, n_slots: int, max_context: int, threads: int, yields: bool = False) -> Session:
        """Open them in their engine; ``yields`` for a session that takes turns with another."""
        options = {**self.options, "threads": threads, "yields": yields}
        return get_engine(ENGINE).open(self.files, n_slots=n_slots, max_context=max_context, options=options)
