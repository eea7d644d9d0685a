"""A recipe compiled by the chip's own toolkit, its simulator compared with the float graph on samples held out."""

from __future__ import annotations

from collections.abc import Mapping

from chipwise.build.compared_outputs import compare_outputs, merged
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_gate import GraphThresholds, judge_graph
from chipwise.build.graph_trial import RANGE_SAMPLES, GraphTrial
from chipwise.build.samples import Samples
from chipwise.quant.calibration import Progress
from chipwise.quant.recipe import Recipe
from chipwise.quant.seen_ranges import SeenRanges
from chipwise.report import Verdict


def judge_compiled(
    recipe: Recipe,
    reference: GraphFile,
    compiled: CompiledGraph,
    ranges: SeenRanges | None,
    samples: Samples,
    gate: Mapping[str, float],
    *,
    threads: int,
    progress: Progress,
) -> GraphTrial:
    """Hold what the simulator computed, and what the compiler's log says, against the gate.

    Args:
        recipe: The recipe.
        reference: The float graph.
        compiled: What the toolkit made of it.
        ranges: What calibration saw of its values; None where they stay in floating point.
        samples: The samples; those held out were simulated.
        gate: Thresholds set by the user.
        threads: Threads of the float graph.
        progress: Told after each sample.

    Raises:
        EngineError: The runtime failed, or the graphs differ in an output.
        InputError: A threshold is none.
    """
    thresholds = GraphThresholds.for_weight_bits(recipe.weight_bits).with_overrides(gate)
    found = merged(
        [
            (
                compiled.shapes[shape].label if compiled.shapes else "",
                compare_outputs(reference, compiled.samples(shape), feeds, threads, progress),
            )
            for shape, feeds in enumerate(samples.held_out_by_shape)
        ]
    )
    foreseen = () if ranges is None else ranges.findings(samples.held_out[:RANGE_SAMPLES], threads=threads)
    verdicts = (
        *judge_graph(found, thresholds),
        Verdict.judge("compiler_errors", compiled.errors, 0, "max"),
    )
    findings = (*compiled.findings, *foreseen)
    return GraphTrial(recipe, compiled, found.outputs, (), len(samples.held_out), verdicts, findings, found.equal)
