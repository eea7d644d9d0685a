"""The end of a compiled graph's build: the compiled file, its self-test and the report, in a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from chipwise.build.build_report import build_report, bundle_name
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.finish import Made, commit
from chipwise.build.graph_finish import described, not_run
from chipwise.build.graph_result import GraphResult
from chipwise.build.options import BuildOptions
from chipwise.build.repair_report import repair_fields
from chipwise.bundle import BundleWriter, EngineSpec, GraphTest, Manifest, ModelInfo, keep_graph_test
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS, of_shape
from chipwise.errors import BundleError
from chipwise.report.report import Step

_ENGINE = "rknn"
# Of an output's largest magnitude: chosen, not measured, for no board was at hand. In float16 the simulator stays
# within 0.004 of float32; 8-bit steps may be rounded otherwise, several of 1/255 each.
_INTEGER_TOLERANCE = 0.05
_FLOAT_TOLERANCE = 0.02


def write_compiled_bundle(
    options: BuildOptions, found: GraphResult, graph: CompiledGraph, steps: Sequence[Step]
) -> Made:
    """Put the compiled file, self-test and report into a bundle at ``options.out``.

    A candidate that failed the gate with outputs of no use is bundled for its report, without a self-test.

    Args:
        options: What the user asked for.
        found: What the build came to.
        graph: The candidate that is kept.
        steps: The steps of the build.

    Raises:
        OutputError: The disk does not take it.
        BundleError: The simulator's outputs are all zero or not finite, and yet passed the gate.
    """
    chosen, source = found.chosen, found.model.source
    tests = _self_tests(found, graph)
    config = described(ir.load(graph.source), found.model, options)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        writer.add_file(GRAPH, graph.path, ".rknn")
        for shape, (_, inputs, outputs) in enumerate(tests):
            writer.add_bytes(of_shape(TEST_INPUTS, shape), inputs, ".npz")
            writer.add_bytes(of_shape(TEST_OUTPUTS, shape), outputs, ".npz")
        if found.model.tokenizer:
            writer.add_tokenizer(found.model.tokenizer)
        manifest = Manifest(
            name=bundle_name(found.model, chosen),
            target=found.target.name,
            engine=EngineSpec(_ENGINE, {"toolkit_version": graph.file.toolkit_version, **_shapes(graph)}),
            model=ModelInfo({**config, **_listed(graph)}, source.kind, source.name, source.licence),
            graph_test=replace(tests[0][0], shapes=len(tests)) if tests else None,
            verdicts=chosen.verdicts,
        )
        report = build_report(
            found, steps, {}, weights_bytes=0, data={"samples": found.samples.source}, layers=chosen.outputs,
            not_run=tuple(not_run(found.samples)), samples=len(found.samples.held_out),
        )  # fmt: skip
        return commit(writer, manifest, replace(report, **repair_fields(found.benches)))


def _self_tests(found: GraphResult, graph: CompiledGraph) -> list[tuple[GraphTest, bytes, bytes]]:
    """One a shape; none if the outputs of one are of no use in a build that failed."""
    tolerance = _INTEGER_TOLERANCE if found.chosen.recipe.integer_activations else _FLOAT_TOLERANCE
    tests = []
    for shape, feeds in enumerate(found.samples.held_out_by_shape):
        telling, outputs = next(
            ((i, one) for i, one in enumerate(graph.samples(shape)) if any(array.any() for array in one.values())),
            (0, next(graph.samples(shape))),
        )
        try:
            tests.append(keep_graph_test(feeds[telling], outputs, tolerance=tolerance))
        except BundleError:
            if found.chosen.passed:
                raise
            return []
    return tests


def _inputs(graph: CompiledGraph) -> list[str]:
    """Those that are left of the user's."""
    return [str(value.name) for value in ir.load(graph.source).graph.inputs]


def _listed(graph: CompiledGraph) -> dict[str, Any]:
    """For whoever feeds it."""
    inputs = _inputs(graph)
    listed = [{name: list(shape.inputs[name]) for name in inputs} for shape in graph.shapes]
    return {"shapes": listed} if listed else {}


def _shapes(graph: CompiledGraph) -> dict[str, Any]:
    """The engine's option for several shapes; a compiled file describes the largest only."""
    if not graph.shapes:
        return {}
    inputs = _inputs(graph)
    return {
        "shapes": [
            {
                "inputs": {name: list(shape.inputs[name]) for name in inputs},
                "outputs": {name: list(stack.shape[1:]) for name, stack in stacks.items()},
            }
            for shape, stacks in zip(graph.shapes, graph.outputs, strict=True)
        ]
    }
