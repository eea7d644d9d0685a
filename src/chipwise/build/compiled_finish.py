"""The end of a compiled graph's build: the compiled file, its self-test and the report, in a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from chipwise.build.build_report import build_report, bundle_name
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.finish import Made, commit
from chipwise.build.graph_finish import described, not_run
from chipwise.build.graph_result import GraphResult
from chipwise.build.options import BuildOptions
from chipwise.build.repair_report import repair_fields
from chipwise.bundle import BundleWriter, EngineSpec, GraphTest, Manifest, ModelInfo, keep_graph_test
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS
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
    test = _self_test(found, graph)
    config = described(ir.load(graph.source), found.model, options)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        writer.add_file(GRAPH, graph.path, ".rknn")
        if test is not None:
            writer.add_bytes(TEST_INPUTS, test[1], ".npz")
            writer.add_bytes(TEST_OUTPUTS, test[2], ".npz")
        if found.model.tokenizer:
            writer.add_tokenizer(found.model.tokenizer)
        manifest = Manifest(
            name=bundle_name(found.model, chosen),
            target=found.target.name,
            engine=EngineSpec(_ENGINE, {"toolkit_version": graph.file.toolkit_version}),
            model=ModelInfo(config, source.kind, source.name, source.licence),
            graph_test=test[0] if test is not None else None,
            verdicts=chosen.verdicts,
        )
        report = build_report(
            found, steps, {}, weights_bytes=0, data={"samples": found.samples.source}, layers=chosen.outputs,
            not_run=tuple(not_run(found.samples)), samples=len(found.samples.held_out),
        )  # fmt: skip
        return commit(writer, manifest, replace(report, **repair_fields(found.benches)))


def _self_test(found: GraphResult, graph: CompiledGraph) -> tuple[GraphTest, bytes, bytes] | None:
    telling, outputs = next(
        ((index, one) for index, one in enumerate(graph.samples()) if any(array.any() for array in one.values())),
        (0, next(graph.samples())),
    )
    tolerance = _INTEGER_TOLERANCE if found.chosen.recipe.integer_activations else _FLOAT_TOLERANCE
    try:
        return keep_graph_test(found.samples.held_out[telling], outputs, tolerance=tolerance)
    except BundleError:
        if found.chosen.passed:
            raise
        return None
