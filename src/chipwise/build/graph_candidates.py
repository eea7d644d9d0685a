"""Candidates of a graph that is no decoder: a recipe's weights and activations, for a CPU or emulating a chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import onnx_ir as ir

from chipwise.build.graph_file import GraphFile, all_float
from chipwise.check.infer import infer_types
from chipwise.errors import RewriteError
from chipwise.files import require_free
from chipwise.model.scheme import TensorScheme
from chipwise.quant.calibration import Progress, Ranges, ValueRange, calibrate
from chipwise.quant.chip_weights import per_channel_ops, quantize_for_chip
from chipwise.quant.emulate import emulate_activations, fused_tails, stored_values
from chipwise.quant.graph_int8 import quantize_graph_int8, stored_schemes
from chipwise.quant.int_weights import IntGrid
from chipwise.quant.pairs import pair_ranges
from chipwise.quant.recipe import Recipe
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.quant.static_int8 import cpu_grid, quantize_channels, quantize_static_int8, quantized_values
from chipwise.quant.weight_only import quantize_weights
from chipwise.rewrite.edit import inline_functions
from chipwise.rewrite.pass_ import Feed, RewriteContext
from chipwise.rewrite.passes.opset_conversion import OpsetConversion
from chipwise.target import Target

# The first opset whose DequantizeLinear takes a scale a channel.
_LOWEST_OPSET = 13

_NONE: Mapping[str, tuple[float, float]] = MappingProxyType({})


@dataclass(frozen=True)
class GraphCandidates:
    """Quantizes one graph for one target.

    Attributes:
        reference: The graph in float32.
        target: The target.
        folder: Where graphs are written.
        threads: Threads of a run.
    """

    reference: GraphFile
    target: Target
    folder: Path
    threads: int

    def make(
        self, recipe: Recipe, feeds: Sequence[Feed], progress: Progress, ends: Mapping[str, tuple[float, float]] = _NONE
    ) -> GraphFile:
        """The graph in a recipe's precision.

        Args:
            recipe: The recipe.
            feeds: Samples to calibrate with.
            progress: Told after each.
            ends: The ends of values of an emulated chip, in place of those that calibration sees.

        Raises:
            InputError: There are no samples, or a group the user named does not fit the weights.
            RewriteError: A value is not finite in calibration, or nothing of the graph can be stored so.
        """
        if self.target.engine == "onnxruntime":
            made = self._on_cpu(recipe, feeds, progress)
        else:
            made = self._emulated(recipe, feeds, progress, ends)
        if all(scheme.bits == 32 for scheme in made.schemes.values()):
            other = "fp16" if recipe.name.startswith("w8a8") else "w8a8"
            raise RewriteError(
                f"no weight of the graph can be stored as {recipe.name}", where=str(self.reference.path.name),
                remedy=f"use another --recipe, e.g. {other}",
            )  # fmt: skip
        return made

    def seen(self, feeds: Sequence[Feed], progress: Progress) -> SeenRanges:
        """The ranges of all values that a chip would store, as the samples drive them.

        Raises:
            InputError: There are no samples.
            RewriteError: A value is not finite in calibration.
        """
        model = self._load()
        stored = stored_values(model, fused_tails(self.target))
        ranges = calibrate(model, feeds, stored, threads=self.threads, progress=progress)
        return SeenRanges(self._load, ranges, _as_it_is)

    def _on_cpu(self, recipe: Recipe, feeds: Sequence[Feed], progress: Progress) -> GraphFile:
        model = self._load()
        if not recipe.integer_activations:
            if recipe.group_size is not None:
                return self._save(model, recipe, quantize_weights(model, recipe))
            return self._save(model, recipe, quantize_channels(model, IntGrid(recipe.weight_bits, recipe.per_channel)))
        if any(node.op_type in ("Conv", "ConvTranspose") for node in model.graph):
            return self._convolutional(recipe, feeds)
        grid, signed = cpu_grid(self.target, per_channel=recipe.per_channel)
        seen = calibrate(
            model, feeds, quantized_values(model), histograms=True, threads=self.threads, progress=progress
        )
        ranges = {name: one.tightened() for name, one in seen.items()}
        made = self._save(model, recipe, quantize_static_int8(model, ranges, grid, signed=signed))
        return replace(made, ranges=SeenRanges(self._load, ranges, _as_it_is))

    def _convolutional(self, recipe: Recipe, feeds: Sequence[Feed]) -> GraphFile:
        """What a convolutional net computes stays in integers from one end to the other."""
        grid, signed = cpu_grid(self.target, per_channel=recipe.per_channel)
        path = self.folder / f"{recipe.name}.qdq.onnx"
        # The library writes a copy of the graph beside it, and reads what a full disk took of it.
        require_free(path, self.reference.size_bytes)
        quantize_graph_int8(
            self.reference.path, path, feeds, grid, signed=signed, per_channel_ops=per_channel_ops(self.target)
        )
        model = ir.load(path)
        made = self._save(model, recipe, stored_schemes(model))
        path.unlink(missing_ok=True)
        return replace(made, ranges=SeenRanges(self._load, self._known(pair_ranges(model)), _as_it_is))

    def _emulated(
        self, recipe: Recipe, feeds: Sequence[Feed], progress: Progress, ends: Mapping[str, tuple[float, float]]
    ) -> GraphFile:
        model = self._load()
        seen: SeenRanges | None = None
        if recipe.integer_activations:
            seen = self.seen(feeds, progress)
            chosen = {name: ValueRange(*pair) for name, pair in ends.items() if name in seen.ranges}
            emulate_activations(model, {**seen.ranges, **chosen}, fused_tails(self.target))
        schemes = quantize_for_chip(model, recipe, per_channel_ops=per_channel_ops(self.target))
        made = self._save(model, recipe, schemes)
        return replace(made, options={"fuse_qdq": False}, emulates=self.target.name, ranges=seen)

    def _known(self, ranges: Ranges) -> Ranges:
        """The ranges of values that the reference has too."""
        graph = self._load().graph
        names = {value.name for value in graph.inputs} | {value.name for node in graph for value in node.outputs}
        return {name: one for name, one in ranges.items() if name in names}

    def _load(self) -> ir.Model:
        model = ir.load(self.reference.path)
        inline_functions(model)
        model = OpsetConversion(lowest=_LOWEST_OPSET).apply(model, RewriteContext()).model
        infer_types(model)
        return model

    def _save(self, model: ir.Model, recipe: Recipe, schemes: dict[str, TensorScheme]) -> GraphFile:
        return GraphFile.save(model, self.folder, recipe.name, {**all_float(model), **schemes})


def _as_it_is(feed: Feed) -> Feed:
    return feed
