"""The line for graphs that are no decoders: rewrite for the target, quantize, compare output by output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from chipwise.build.attempt import Attempt
from chipwise.build.build_report import bundle_name
from chipwise.build.chip_toolchain import installed_toolchain, why_emulated
from chipwise.build.compiled_finish import write_compiled_bundle
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.graph_attempts import GraphAttempts
from chipwise.build.graph_borders import settle_borders
from chipwise.build.graph_file import GraphFile, all_float
from chipwise.build.graph_finish import input_shapes, write_graph_bundle
from chipwise.build.graph_result import GraphResult
from chipwise.build.line import Workplace, for_outcome
from chipwise.build.media_settings import read_media_settings
from chipwise.build.options import BuildOptions
from chipwise.build.recipes import recipes_to_try
from chipwise.build.repair import Bench, climb
from chipwise.build.repair_changes import Ladder
from chipwise.build.result import BuildResult
from chipwise.build.rknn_compiler import RknnCompiler
from chipwise.build.samples import Samples, gather_samples
from chipwise.build.shape_samples import gather_shape_samples
from chipwise.build.shape_sets import ShapeSet, largest, read_shape_sets
from chipwise.build.sound_graph import require_numbers, require_sound
from chipwise.check.infer import infer_types
from chipwise.check.load import load_graph
from chipwise.check.run import check
from chipwise.errors import InputError, ModelFormatError
from chipwise.model.config import EncoderConfig
from chipwise.model.encoder import EncoderSpec, build_encoder
from chipwise.model.model import Model
from chipwise.quant.recipe import Recipe
from chipwise.report import Finding
from chipwise.report.report import RewriteStep
from chipwise.rewrite.pass_ import Feed, RewriteContext
from chipwise.rewrite.passes.ort_fusions import OrtFusions
from chipwise.rewrite.pipeline import run_passes
from chipwise.rewrite.plan import passes_for, wants_sizes
from chipwise.target import Target

# What `auto` tries, the smallest first.
_AUTO_RECIPES = ("w8a8", "fp16", "fp32")
_PROOF_SAMPLES = 2
_MULTIPLE = 16


def read_graph(options: BuildOptions, target: Target, model: Model) -> GraphLine:
    """Read or write the graph, gather samples, and settle what to try.

    Raises:
        InputError: The samples, queries or recipe are wrong, or the target does not take the recipe.
        ModelFormatError: The file holds no graph.
    """
    if options.suite is not None:
        raise InputError(
            "a suite has cases for language models, and this model answers nothing", where=str(options.suite),
            remedy="give --samples or --queries",
        )  # fmt: skip
    if options.fallback is not None:
        raise InputError("only language models are served with a fallback", where="--fallback", remedy="leave it out")
    recipes = recipes_to_try(options, target, _AUTO_RECIPES)
    graph = _graph(model, options.fixed)
    # Read again at the end; a mistake in a file is told now.
    read_media_settings(options, input_shapes(graph))
    static = target.constraints.static_shapes
    multiple = _MULTIPLE if static is not None and static.value else None
    shapes = read_shape_sets(options, target, graph.graph)
    if shapes:
        samples = gather_shape_samples(options, graph, shapes)
    else:
        samples = gather_samples(options, graph, model.tokenizer, multiple=multiple, longest=_longest(options, model))
    return GraphLine(options, target, model, graph, samples, recipes, multiple is not None, shapes)


@dataclass(frozen=True)
class GraphLine:
    """A graph's build, once everything is read.

    Attributes:
        options: What the user asked for.
        target: The target.
        model: The model.
        graph: Its graph as it came.
        samples: What it is calibrated and verified on.
        recipes: What is tried, in order.
        fixed: Whether the target wants every size fixed.
        shapes: Several shapes that one file is compiled for; empty for one.
    """

    options: BuildOptions
    target: Target
    model: Model
    graph: ir.Model
    samples: Samples
    recipes: tuple[Recipe, ...]
    fixed: bool
    shapes: tuple[ShapeSet, ...] = ()

    def describe(self) -> str:
        """What was read, in one line."""
        nodes, samples = sum(1 for _ in self.graph.graph), self.samples
        kind = self.model.config.arch if self.model.config else "ONNX graph"
        return (
            f"{self.model.source.name}: {kind}, {nodes} nodes; {len(samples.calibration)} samples to calibrate, "
            f"{len(samples.held_out)} to verify, {samples.source}"
        )

    def check(self) -> Sequence[Finding]:
        """The model held against the target, with the sizes it shall have."""
        dims = self._dims() if self.model.onnx_path is not None else {}
        if self.shapes:
            dims = dict(self.shapes[largest(self.shapes)].dims)
        recipe = self.recipes[-1].name
        return check(self.model, self.target, recipe=recipe, dims=dims, fixed=self.options.fixed)

    def build(self, place: Workplace) -> BuildResult:
        """Rewrite and prove, try the recipes, bundle the one that is kept."""
        log = place.log
        with log.step("prove rewrites") as note:
            where, threads = str(self.model.source.path), self.options.threads or 2
            require_sound(self.graph, self.samples, where=where, threads=threads)
            reference, rewrites, left_out = self._reference(place)
            samples = self.samples.fitting(ir.load(reference.path).graph) if self.fixed else self.samples
            require_numbers(reference, samples, where=where, threads=threads)
            changed = [step.name for step in rewrites if step.modified]
            note.text = f"float32, {reference.size_bytes // 1_000_000} MB; {', '.join(changed) or 'nothing to change'}"
        toolchain = installed_toolchain(self.options, self.target)
        limit_s = self.options.job_timeout_s
        compiler = RknnCompiler(toolchain, self.target, place.folder, limit_s, self.shapes) if toolchain else None
        attempts = GraphAttempts(self.options, self.target, reference, samples, compiler, place)
        equal: list[RewriteStep] = []
        benches: list[Bench] = []
        for recipe in self.recipes:
            benches.append(self._repaired(Bench(attempts.first(Attempt(recipe, reference))), attempts, equal))
            if benches[-1].passed:
                break
        trials = [bench.best.trial for bench in benches if bench.best.trial is not None]
        chosen = trials[-1]
        options = for_outcome(self.options, passed=chosen.passed)
        why = why_emulated(self.options, self.target)
        with log.step("bundle") as note:
            found = GraphResult(
                self.target,
                self.model,
                samples,
                (*place.findings, *left_out),
                (*rewrites, *equal),
                trials,
                why,
                benches,
            )
            if isinstance(chosen.candidate, CompiledGraph):
                made = write_compiled_bundle(options, found, chosen.candidate, log.steps)
            else:
                made = write_graph_bundle(options, found, chosen.candidate, log.steps)
            note.text = f"{bundle_name(self.model, chosen)} at {options.out}"
        return BuildResult(made.path, made.report, chosen.recipe.name)

    def _repaired(self, bench: Bench, attempts: GraphAttempts, equal: list[RewriteStep]) -> Bench:
        """What a recipe that fails its gate comes to when it is repaired."""
        recipe = bench.best.attempt.recipe
        if self.options.repair and not self.shapes and recipe.quantizes and recipe.scheme != "fp16":
            context = RewriteContext(
                tuple(attempts.samples.held_out[:_PROOF_SAMPLES]), self._dims(), threads=self.options.threads or 2
            )
            emulates = attempts.compiler is None and self.target.engine != "onnxruntime"
            ladder = Ladder(
                attempts.samples.calibration, context, attempts.place.folder, equal,
                clips=emulates or attempts.compiler is not None, compiled=attempts.compiler is not None,
            )  # fmt: skip
            climb(bench, ladder.changes, attempts.again)
        return bench

    def _reference(self, place: Workplace) -> tuple[GraphFile, tuple[RewriteStep, ...], tuple[Finding, ...]]:
        context = RewriteContext(
            samples=self._proof_samples(),
            dims=self._dims(),
            threads=self.options.threads or 2,
        )
        # Fused operators have no integer form: they would stay in floating point.
        fuses = not any(recipe.integer_activations for recipe in self.recipes)
        passes = [one for one in passes_for(self.target) if fuses or not isinstance(one, OrtFusions)]
        if self.shapes:
            passes = [one for one in passes if not wants_sizes(one)]
        result = run_passes(self.graph, passes, context)
        steps = tuple(
            RewriteStep(step.name, int(step.modified), step.max_abs_diff if step.modified else None, _notes(step.notes))
            for step in result.steps
        )
        infer_types(result.model)
        left_out = settle_borders(result.model) if self.fixed else ()
        return GraphFile.save(result.model, place.folder, "reference", all_float(result.model)), steps, left_out

    def _proof_samples(self) -> tuple[Feed, ...]:
        """What rewrites are proven on: a few samples, or one of each shape."""
        if self.shapes:
            return tuple(feeds[0] for feeds in self.samples.held_out_by_shape)
        return tuple(self.samples.held_out[:_PROOF_SAMPLES])

    def _dims(self) -> dict[str, int]:
        """Sizes the user named; for a target of fixed shapes those of the samples too, if they are not made up.

        None of several shapes is fixed.
        """
        if self.shapes:
            return {}
        found = self.samples.dims(self.graph.graph) if self.fixed and not self.samples.drawn else {}
        return {**found, **self.options.dims}


def _graph(model: Model, fixed: Mapping[str, float]) -> ir.Model:
    if model.onnx_path is not None:
        return load_graph(model.onnx_path, fixed)
    if fixed:
        raise InputError("only inputs of ONNX graphs can be fixed", where="--fix", remedy="leave it out")
    if not isinstance(model.config, EncoderConfig) or model.weights is None:
        raise ModelFormatError("no graph and no weights", where=str(model.source.path))
    graph = build_encoder(model.config, model.weights, EncoderSpec())
    infer_types(graph)
    return graph


def _longest(options: BuildOptions, model: Model) -> int:
    limit = model.config.max_positions if isinstance(model.config, EncoderConfig) else 512
    return min(limit, options.max_context or limit)


def _notes(notes: Sequence[str]) -> str:
    return "; ".join(notes)
