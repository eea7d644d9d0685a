"""Candidates of a graph that is no decoder: a recipe's weights and activations, for a CPU or emulating a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from chipwise.build.graph_file import GraphFile, all_float
from chipwise.check.infer import infer_types
from chipwise.errors import RewriteError
from chipwise.model.scheme import TensorScheme
from chipwise.quant.calibration import Progress, Ranges, calibrate
from chipwise.quant.chip_weights import per_channel_ops, quantize_for_chip
from chipwise.quant.emulate import emulate_activations, stored_values
from chipwise.quant.graph_int8 import quantize_graph_int8, stored_schemes
from chipwise.quant.int_weights import IntGrid, quantize_int_weights
from chipwise.quant.pairs import pair_ranges
from chipwise.quant.recipe import Recipe
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.quant.static_int8 import cpu_grid
from chipwise.quant.weight_only import quantize_weights
from chipwise.rewrite.edit import inline_functions
from chipwise.rewrite.pass_ import Feed
from chipwise.target import Target


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

    def make(self, recipe: Recipe, feeds: Sequence[Feed], progress: Progress) -> GraphFile:
        """The graph in a recipe's precision.

        Raises:
            InputError: There are no samples, or a group the user named does not fit the weights.
            RewriteError: A value is not finite in calibration, or nothing of the graph can be stored so.
        """
        if self.target.engine == "onnxruntime":
            made = self._on_cpu(recipe, feeds)
        else:
            made = self._emulated(recipe, feeds, progress)
        if all(scheme.bits == 32 for scheme in made.schemes.values()):
            raise RewriteError(
                f"no weight of the graph can be stored as {recipe.name}", where=str(self.reference.path.name),
                remedy="use another --recipe, e.g. w8a8",
            )  # fmt: skip
        return made

    def _on_cpu(self, recipe: Recipe, feeds: Sequence[Feed]) -> GraphFile:
        if not recipe.integer_activations:
            model = self._load()
            return self._save(model, recipe, self._weight_only(model, recipe))
        grid, signed = cpu_grid(self.target, per_channel=recipe.per_channel)
        path = self.folder / f"{recipe.name}.qdq.onnx"
        quantize_graph_int8(
            self.reference.path, path, feeds, grid, signed=signed, per_channel_ops=per_channel_ops(self.target)
        )
        model = ir.load(path)
        made = self._save(model, recipe, stored_schemes(model))
        path.unlink(missing_ok=True)
        return replace(made, ranges=SeenRanges(self._load, self._known(pair_ranges(model)), _as_it_is))

    def _emulated(self, recipe: Recipe, feeds: Sequence[Feed], progress: Progress) -> GraphFile:
        model = self._load()
        seen: SeenRanges | None = None
        if recipe.integer_activations:
            ranges = calibrate(model, feeds, stored_values(model), threads=self.threads, progress=progress)
            seen = SeenRanges(self._load, ranges, _as_it_is)
            emulate_activations(model, ranges)
        schemes = quantize_for_chip(model, recipe, per_channel_ops=per_channel_ops(self.target))
        made = self._save(model, recipe, schemes)
        return replace(made, options={"fuse_qdq": False}, emulates=self.target.name, ranges=seen)

    def _weight_only(self, model: ir.Model, recipe: Recipe) -> dict[str, TensorScheme]:
        if recipe.group_size is None:
            return quantize_int_weights(model, IntGrid(recipe.weight_bits, recipe.per_channel))
        return quantize_weights(model, recipe)

    def _known(self, ranges: Ranges) -> Ranges:
        """The ranges of values that the reference has too."""
        graph = self._load().graph
        names = {value.name for value in graph.inputs} | {value.name for node in graph for value in node.outputs}
        return {name: one for name, one in ranges.items() if name in names}

    def _load(self) -> ir.Model:
        model = ir.load(self.reference.path)
        inline_functions(model)
        infer_types(model)
        return model

    def _save(self, model: ir.Model, recipe: Recipe, schemes: dict[str, TensorScheme]) -> GraphFile:
        return GraphFile.save(model, self.folder, recipe.name, {**all_float(model), **schemes})


def _as_it_is(feed: Feed) -> Feed:
    return feed
