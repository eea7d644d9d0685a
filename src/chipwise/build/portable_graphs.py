"""Graphs for chips: static prefill and decode graphs in standard operators, run here with the chip's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import onnx_ir as ir

from chipwise.build.graph_files import GraphFiles
from chipwise.build.logits_proof import proven, read_logits
from chipwise.build.portable_shape import PortableShape
from chipwise.check.infer import infer_types
from chipwise.files import writing
from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder, names
from chipwise.model.decoder.rope import causal_bias
from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE
from chipwise.model.onnx_file_writer import save_graphs
from chipwise.model.scheme import FLOAT32, TensorScheme
from chipwise.model.weights import WeightSource
from chipwise.quant.calibration import Progress, calibrate
from chipwise.quant.chip_weights import per_channel_ops, quantize_for_chip
from chipwise.quant.emulate import emulate_activations, stored_values
from chipwise.quant.recipe import Recipe
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.quant.twins import twin_ranges
from chipwise.report.report import RewriteStep
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.edit import inline_functions
from chipwise.rewrite.mask_range import measure
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner
from chipwise.target import Target

# What mask sites are known by; only the graph that measures the scores has it.
_PROBE_MASK = -1e4


class PortableGraphs:
    """The graphs of one decoder for one chip.

    Args:
        config: The architecture.
        weights: Its weights.
        shape: The sizes of the static graphs.
        folder: Where graphs are written.
        target: The chip.
        prompts: Real prompts, by which the mask is chosen.
        threads: Threads of a run.
    """

    def __init__(
        self,
        config: DecoderConfig,
        weights: WeightSource,
        shape: PortableShape,
        folder: Path,
        *,
        target: Target,
        prompts: Sequence[Sequence[int]],
        threads: int,
    ) -> None:
        self.config, self.weights, self._shape, self._folder = config, weights, shape, folder
        self._target, self._prompts, self._threads = target, prompts, threads or 2

    def with_weights(self, config: DecoderConfig, weights: WeightSource, folder: Path) -> PortableGraphs:
        """The graphs of the same shapes with other weights, written into a folder of their own."""
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return PortableGraphs(
            config, weights, self._shape, folder, target=self._target, prompts=self._prompts, threads=self._threads
        )

    @property
    def prefill_tokens(self) -> int:
        """Tokens that prefill reads at once."""
        return self._shape.tokens

    def reference(self) -> GraphFiles:
        """The model in float32, in the same shapes; and beside it the graph without fixed ones that is calibrated."""
        pair = self.pair(DEFAULT_MASK_VALUE)
        dynamic = {"dynamic": self._inlined(GraphSpec("prefill", self._shape.context))}
        return self._save(pair, "reference", _all_float(pair), emulated=False, beside=dynamic)

    def prove(self, reference: GraphFiles, prompt: Sequence[int]) -> list[RewriteStep]:
        """Hold fixed shapes and the smaller mask against the graph without either, on a prompt.

        Raises:
            RewriteError: A logit moved by more than float32 sums in another order do.
        """
        prompt = prompt[: self._shape.tokens]
        runner = Runner(self.dynamic(), threads=self._threads, label="the graph of symbolic shapes")
        plain, masked = (
            runner.run(self.feed(prompt, mask), ["logits"])["logits"] for mask in (DEFAULT_MASK_VALUE, self.mask_value)
        )
        fixed = read_logits(reference, prompt, self._threads)
        return [
            RewriteStep(
                "fix_shapes", 2, proven("fix_shapes", plain, fixed),
                f"prefill of {self._shape.tokens} tokens, a cache of {self._shape.context}; "
                f"proven on {len(prompt)} tokens",
            ),
            RewriteStep(
                "mask_constant", self.config.n_layers, proven("mask_constant", plain, masked),
                f"{DEFAULT_MASK_VALUE:g} becomes {self.mask_value:g}, the smallest that masks the scores measured",
            ),
        ]  # fmt: skip

    def calibrates(self, recipe: Recipe) -> bool:
        """Ranges of integer activations; weights are rounded as a vendor's toolkit does."""
        return recipe.integer_activations

    def candidate(
        self, recipe: Recipe, reference: GraphFiles, calibration: Sequence[Sequence[int]], *, progress: Progress
    ) -> GraphFiles:
        """The model with a recipe's weights, and with the chip's activations where they are integers.

        Raises:
            InputError: There is nothing to calibrate with, or a group the user named does not fit the weights.
            RewriteError: A value is not finite in calibration.
        """
        pair = self.pair(self.mask_value)
        seen: SeenRanges | None = None
        if recipe.integer_activations:
            dynamic = self.dynamic()
            feeds = [self.feed(prompt[: self._shape.context]) for prompt in calibration]
            ranges = calibrate(dynamic, feeds, stored_values(dynamic), threads=self._threads, progress=progress)
            seen = SeenRanges(self.dynamic, ranges, self.feed)
            for graph in pair.values():
                emulate_activations(graph, twin_ranges(graph, dynamic, ranges))
        schemes = _all_float(pair)
        for graph in pair.values():
            schemes |= quantize_for_chip(graph, recipe, per_channel_ops=per_channel_ops(self._target))
        return replace(self._save(pair, recipe.name, schemes, emulated=True), ranges=seen)

    @cached_property
    def mask_value(self) -> float:
        """The mask of smallest magnitude that still masks the scores of the prompts; after ``reference``.

        An 8-bit scale spans mask and scores alike: what a mask is lower than it must be, the scores lose in steps.
        """
        lengths = sorted(len(prompt) for prompt in self._prompts)
        n = min(lengths[len(lengths) // 2], self._shape.tokens)
        probe = self.dynamic()
        _fix_mask(probe.graph, n, self.config.sliding_window)
        feeds = [prompt_feed(probe.graph, prompt[:n]) for prompt in self._prompts if len(prompt) >= n]
        found = [one for one in measure(probe, feeds, threads=self._threads) if one is not None]
        if not found:
            return DEFAULT_MASK_VALUE
        # A row of decode is longer than any that was measured.
        needed = (replace(one, keys=self._shape.context + 1).needed(additive=True) for one in found)
        return float(math.floor(min(needed)))

    def feed(self, prompt: Sequence[int], mask_value: float | None = None) -> Feed:
        """Inputs of the graph of symbolic shapes, by default with the mask of the candidates."""
        window, mask_value = self.config.sliding_window, self.mask_value if mask_value is None else mask_value
        return prompt_feed(self._dynamic_inputs, prompt, mask_value=mask_value, window=window)

    @cached_property
    def _dynamic_inputs(self) -> ir.Graph:
        return self.dynamic().graph

    def dynamic(self) -> ir.Model:
        """The graph of symbolic shapes, over the reference's weights where they lie."""
        return ir.load(self._folder / "reference.dynamic.onnx")

    def pair(self, mask_value: float, *, all_rows: bool = False) -> dict[str, ir.Model]:
        """The static prefill and decode graphs in float32, without functions, as they are before anything is stored."""
        tokens, context = self._shape.tokens, self._shape.context
        # Verification compares every token, so prefill gives the logits of all of them.
        prefill = GraphSpec("prefill", context, 1, tokens, tokens, mask_value=mask_value, all_rows=all_rows)
        decode = GraphSpec("decode", context, 1, 1, 1, mask_value=mask_value, all_rows=all_rows)
        return {"prefill": self._inlined(prefill), "decode": self._inlined(decode)}

    def _inlined(self, spec: GraphSpec) -> ir.Model:
        model = build_decoder(self.config, self.weights, spec)
        inline_functions(model)
        infer_types(model)
        return model

    def _save(
        self,
        pair: Mapping[str, ir.Model],
        stem: str,
        schemes: Mapping[str, TensorScheme],
        *,
        emulated: bool,
        beside: Mapping[str, ir.Model] | None = None,
    ) -> GraphFiles:
        models = {f"{stem}.{role}": graph for role, graph in {**pair, **(beside or {})}.items()}
        saved = save_graphs(models, self._folder, f"{stem}.bin")
        return GraphFiles(
            files={role: saved[f"{stem}.{role}"].path for role in pair},
            weights=self._folder / f"{stem}.bin",
            options={"fuse_qdq": False} if emulated else {},
            schemes=schemes,
            context=self._shape.context,
            emulates=self._target.name if emulated else None,
        )


def _all_float(pair: Mapping[str, ir.Model]) -> dict[str, TensorScheme]:
    return {str(name): FLOAT32 for graph in pair.values() for name in graph.graph.initializers}


def _fix_mask(graph: ir.Graph, tokens: int, window: int | None) -> None:
    """Make the mask a constant by which mask sites are known, in place of an input."""
    for value in [v for v in graph.inputs if v.name in (names.ATTENTION_BIAS, names.ATTENTION_BIAS_LOCAL)]:
        local = value.name == names.ATTENTION_BIAS_LOCAL
        tensor = ir.tensor(causal_bias(tokens, _PROBE_MASK, window if local else None), name=value.name)
        graph.inputs.remove(value)
        value.const_value, value.shape = tensor, ir.Shape(tensor.shape.numpy())
        graph.register_initializer(value)
