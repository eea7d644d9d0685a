"""The graphs of a build: the reference in float32 and the candidate in a recipe's precision, for one target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from chipwise.engine import Batch, Session
from chipwise.engine.onnxruntime.open_graph import open_graph
from chipwise.engine.registry import get_engine
from chipwise.errors import RewriteError
from chipwise.files import writing
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.decoder.rope import causal_bias
from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.model.weights import WeightSource
from chipwise.quant.hessian import HessianSource, Progress
from chipwise.quant.recipe import Recipe
from chipwise.quant.weight_only import quantize_weights
from chipwise.report.report import RewriteStep
from chipwise.rewrite.passes.ort_decoder import fuse_decoder

ENGINE = "onnxruntime"
# Largest difference of a logit over the largest logit: float32 sums in another order.
FUSION_TOLERANCE = 1e-4


@dataclass(frozen=True)
class GraphFiles:
    """Graphs on disk that an engine opens together.

    Attributes:
        files: The graphs by role, each with its weights file beside it.
        options: What the engine must know of them.
        schemes: How each weight is stored.
    """

    files: Mapping[str, Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    schemes: Mapping[str, TensorScheme] = field(default_factory=dict)

    @cached_property
    def kv_shapes(self) -> dict[str, tuple[int, int]]:
        """Key and value heads and channels a head of each cache input of the decoder, by input name."""
        found = {}
        for value in ir.load(self.files["decoder"]).graph.inputs:
            if value.name and value.name.startswith("past.") and value.shape is not None:
                _, heads, _, channels = value.shape.dims
                if isinstance(heads, int) and isinstance(channels, int):
                    found[value.name] = (heads, channels)
        return found

    def open(self, *, n_slots: int, max_context: int, threads: int) -> Session:
        """Open them in their engine."""
        options = {**self.options, "threads": threads}
        return get_engine(ENGINE).open(self.files, n_slots=n_slots, max_context=max_context, options=options)


class CpuGraphs:
    """Graphs for CPUs: one fused decoder for prefill and decode."""

    def __init__(self, config: DecoderConfig, weights: WeightSource, context: int, folder: Path) -> None:
        self._config, self._weights, self._context, self._folder = config, weights, context, folder

    def reference(self) -> GraphFiles:
        """The model in float32."""
        model = self._fused()
        schemes = {str(name): FLOAT32 for name in model.graph.initializers}
        return GraphFiles({"decoder": self._save(model, "reference")}, schemes=schemes)

    def prove(self, reference: GraphFiles, prompt: Sequence[int], *, threads: int) -> RewriteStep:
        """Run a prompt through the plain graph and the fused one, and compare the logits of every token.

        Raises:
            RewriteError: They differ by more than float32 sums in another order do.
        """
        plain = build_decoder(self._config, self._weights, GraphSpec("prefill", self._context))
        path = self._save(plain, "plain_prefill")
        before = _plain_logits(path, prompt, self._config.sliding_window, threads)
        _remove(path)
        batch = Batch(0, np.array([prompt], np.int64), np.zeros(1, np.int64), "all")
        after = _logits(reference, batch, threads)[0]
        largest, scale = float(np.abs(before - after).max()), float(np.abs(before).max())
        if not largest <= FUSION_TOLERANCE * max(scale, 1.0):
            raise RewriteError(
                f"the fused graph's logits differ by {largest:.3g} of {scale:.3g}",
                where="ort_decoder",
                remedy="report this model: fusing is not safe for it",
            )
        return RewriteStep(
            "ort_decoder", 1, largest,
            f"GroupQueryAttention, SkipSimplifiedLayerNormalization; proven on {len(prompt)} tokens",
        )  # fmt: skip

    def candidate(
        self,
        recipe: Recipe,
        reference: GraphFiles,
        calibration: Sequence[Sequence[int]],
        *,
        threads: int,
        progress: Progress,
    ) -> GraphFiles:
        """The model in a recipe's precision."""
        model = self._fused()
        hessians = None
        if recipe.algorithm == "gptq":
            hessians = HessianSource(reference.files["decoder"], calibration, threads=threads, progress=progress)
        schemes = {str(name): FLOAT32 for name in model.graph.initializers}
        schemes |= quantize_weights(model, recipe, hessians=hessians)
        return GraphFiles({"decoder": self._save(model, recipe.name)}, schemes=schemes)

    def _fused(self) -> ir.Model:
        spec = GraphSpec("decode", self._context)
        return fuse_decoder(build_decoder(self._config, self._weights, spec), self._config)

    def _save(self, model: ir.Model, stem: str) -> Path:
        path = self._folder / f"{stem}.onnx"
        with writing(path):
            ir.save(model, path, external_data=f"{stem}.bin")
        return path


def _plain_logits(path: Path, prompt: Sequence[int], window: int | None, threads: int) -> Any:
    """Logits of every token of a prompt by a plain prefill graph, ``[n, vocab]``."""
    session = open_graph(path, threads=threads)
    n = len(prompt)
    feeds = {
        "input_ids": np.array([prompt], np.int64),
        "output_rows": np.arange(n, dtype=np.int64),
        "positions": np.arange(n, dtype=np.int64)[None],
        "attention_bias": causal_bias(n, DEFAULT_MASK_VALUE),
        "attention_bias_local": causal_bias(n, DEFAULT_MASK_VALUE, window),
    }
    wanted = {value.name for value in session.get_inputs()}
    return session.run(["logits"], {name: array for name, array in feeds.items() if name in wanted})[0]


def _logits(graphs: GraphFiles, batch: Batch, threads: int) -> Any:
    session = graphs.open(n_slots=1, max_context=batch.new_tokens, threads=threads)
    try:
        return session.step(batch).logits.copy()
    finally:
        session.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".bin").unlink(missing_ok=True)
