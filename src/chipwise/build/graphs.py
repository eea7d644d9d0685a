"""The graphs of a build for CPUs: the reference in float32 and the candidate in a recipe's precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import onnx_ir as ir

from chipwise.build.graph_files import GraphFiles
from chipwise.build.logits_proof import Logits, proven, read_logits
from chipwise.engine.onnxruntime.open_graph import open_graph
from chipwise.files import require_free, writing
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.model.weights import WeightSource
from chipwise.quant.calibration import calibrate
from chipwise.quant.float16 import store_float16
from chipwise.quant.hessian import HessianSource, Progress
from chipwise.quant.int_weights import IntGrid
from chipwise.quant.recipe import Recipe
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.quant.static_int8 import cpu_grid, quantize_channels, quantize_static_int8, quantized_values
from chipwise.quant.weight_only import quantize_weights
from chipwise.report.report import RewriteStep
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.passes.ort_decoder import fuse_decoder
from chipwise.target.target import Target


class CpuGraphs:
    """Graphs for CPUs: one fused decoder for prefill and decode.

    Args:
        config: The architecture.
        weights: Its weights.
        context: Tokens that the graphs can name.
        folder: Where graphs are written.
        target: The CPU.
        threads: Threads of a run; 0 for one a core.
    """

    def __init__(
        self, config: DecoderConfig, weights: WeightSource, context: int, folder: Path, *, target: Target, threads: int
    ) -> None:
        self._config, self._weights, self._context, self._folder = config, weights, context, folder
        self._target, self._threads = target, threads

    def reference(self) -> GraphFiles:
        """The model in float32."""
        model = self._fused()
        return self._save(model, "reference", _all_float(model))

    def floating(self, precision: Literal["fp16", "fp32"]) -> GraphFiles:
        """The model with weights in floating point. Those in float16 are widened when the graph is opened."""
        model = self._fused()
        schemes = _all_float(model)
        if precision == "fp16":
            schemes |= store_float16(model)
        return self._save(model, precision, schemes)

    def prove(self, reference: GraphFiles, prompt: Sequence[int]) -> list[RewriteStep]:
        """Run a prompt through the plain graph and the fused one, and compare the logits of every token.

        Raises:
            RewriteError: They differ by more than float32 sums in another order do.
        """
        plain = build_decoder(self._config, self._weights, GraphSpec("prefill", self._context))
        saved = self._save(plain, "plain_prefill", {})
        before = _plain_logits(saved.reads_prompts, prompt, self._config.sliding_window, self._threads)
        for path in (saved.reads_prompts, saved.weights):
            path.unlink(missing_ok=True)
        largest = proven("ort_decoder", before, read_logits(reference, prompt, self._threads))
        note = f"GroupQueryAttention, SkipSimplifiedLayerNormalization; proven on {len(prompt)} tokens"
        return [RewriteStep("ort_decoder", 1, largest, note)]

    def calibrates(self, recipe: Recipe) -> bool:
        """Ranges of integer activations, and the inputs that GPTQ makes up for."""
        return recipe.integer_activations or (recipe.algorithm == "gptq" and recipe.group_size is not None)

    def candidate(
        self, recipe: Recipe, reference: GraphFiles, calibration: Sequence[Sequence[int]], *, progress: Progress
    ) -> GraphFiles:
        """The model in a recipe's precision.

        Raises:
            InputError: There is nothing to calibrate with, or a group the user named does not fit the weights.
            RewriteError: A value is not finite in calibration, or the recipe fits no weight.
        """
        model = self._fused()
        schemes = _all_float(model)
        seen: SeenRanges | None = None
        if recipe.integer_activations:
            seen = self._calibrated(reference, calibration, progress)
            grid, signed = cpu_grid(self._target, per_channel=recipe.per_channel)
            schemes |= quantize_static_int8(model, seen.ranges, grid, signed=signed)
        elif recipe.group_size is None:
            schemes |= quantize_channels(model, IntGrid(recipe.weight_bits, recipe.per_channel))
        else:
            hessians = None
            if recipe.algorithm == "gptq":
                path = reference.reads_prompts
                hessians = HessianSource(path, calibration, threads=self._threads, progress=progress)
            schemes |= quantize_weights(model, recipe, hessians=hessians, keep_grids=True)
        return replace(self._save(model, recipe.name, schemes), ranges=seen)

    def _calibrated(self, reference: GraphFiles, prompts: Sequence[Sequence[int]], progress: Progress) -> SeenRanges:
        load = partial(ir.load, reference.reads_prompts)
        model = load()
        feed = partial(prompt_feed, model.graph)
        feeds = [feed(prompt) for prompt in prompts]
        seen = calibrate(
            model, feeds, quantized_values(model), histograms=True, threads=self._threads or 2, progress=progress
        )
        return SeenRanges(load, {name: one.tightened() for name, one in seen.items()}, feed)

    def _fused(self) -> ir.Model:
        spec = GraphSpec("decode", self._context)
        return fuse_decoder(build_decoder(self._config, self._weights, spec), self._config)

    def _save(self, model: ir.Model, stem: str, schemes: Mapping[str, TensorScheme]) -> GraphFiles:
        path, weights = self._folder / f"{stem}.onnx", self._folder / f"{stem}.bin"
        tensors = [value.const_value for value in model.graph.initializers.values()]
        size_bytes = sum(tensor.nbytes for tensor in tensors if tensor is not None)
        require_free(path, size_bytes)
        with writing(path, need_bytes=size_bytes):
            ir.save(model, path, external_data=weights.name)
        return GraphFiles({"decoder": path}, weights, schemes=schemes)


def _all_float(model: ir.Model) -> dict[str, TensorScheme]:
    return {str(name): FLOAT32 for name in model.graph.initializers}


def _plain_logits(path: Path, prompt: Sequence[int], window: int | None, threads: int) -> Logits:
    """Logits of every token of a prompt by a plain prefill graph, ``[n, vocab]``."""
    feed = prompt_feed(ir.load(path).graph, prompt, window=window)
    logits: Logits = open_graph(path, threads=threads).run(["logits"], dict(feed))[0]
    return logits
