"""The end of a graph's build: the report, and the bundle with everything that belongs to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from chipwise.build.build_report import build_report, bundle_name
from chipwise.build.finish import Made, commit
from chipwise.build.graph_file import GraphFile
from chipwise.build.graph_files import ENGINE
from chipwise.build.graph_result import GraphResult
from chipwise.build.media_settings import read_media_settings
from chipwise.build.options import BuildOptions
from chipwise.build.repair_report import repair_fields
from chipwise.build.samples import Samples
from chipwise.build.stored import WEIGHTS, StoredWeight, relocate
from chipwise.bundle import BundleWriter, EngineSpec, GraphTest, Manifest, ModelInfo, record_graph_test
from chipwise.bundle.manifest import GRAPH, TEST_INPUTS, TEST_OUTPUTS
from chipwise.model.config import EncoderConfig
from chipwise.model.model import Model
from chipwise.report.report import NotRun, Step

# Of an output's largest magnitude. Another processor rounds integers otherwise, by a few steps of 1/255 each.
_INTEGER_TOLERANCE = 0.05
_FLOAT_TOLERANCE = 0.005


def write_graph_bundle(options: BuildOptions, found: GraphResult, graph: GraphFile, steps: Sequence[Step]) -> Made:
    """Put graph, weights, self-test and report into a bundle at ``options.out``.

    Args:
        options: What the user asked for.
        found: What the build came to.
        graph: The candidate that is kept.
        steps: The steps of the build.

    Raises:
        OutputError: The disk does not take it.
        BundleError: The candidate's outputs are all zero or not finite.
    """
    chosen, source = found.chosen, found.model.source
    config = described(ir.load(graph.path), found.model, options)
    test, inputs, outputs = _self_test(graph, found, options.threads)
    with BundleWriter(options.out, overwrite=options.overwrite) as writer:
        stored: dict[str, StoredWeight] = {}
        weights_bytes = 0
        if graph.weights is not None:
            weights_bytes = graph.weights.stat().st_size
            weights = writer.add_file(WEIGHTS, graph.weights, ".bin")
            stored = relocate(graph.path, weights, graph.schemes)
        writer.add_file(GRAPH, graph.path, ".onnx")
        writer.add_bytes(TEST_INPUTS, inputs, ".npz")
        writer.add_bytes(TEST_OUTPUTS, outputs, ".npz")
        if found.model.tokenizer:
            writer.add_tokenizer(found.model.tokenizer)
        manifest = Manifest(
            name=bundle_name(found.model, chosen),
            target=found.target.name,
            engine=EngineSpec(ENGINE, dict(graph.options)),
            model=ModelInfo(config, source.kind, source.name, source.licence),
            graph_test=test,
            tensors={name: weight.entry for name, weight in stored.items()},
            verdicts=chosen.verdicts,
        )
        report = build_report(
            found, steps, stored, weights_bytes=weights_bytes,
            data={"samples": found.samples.source}, layers=(*chosen.outputs, *chosen.layers),
            not_run=tuple(not_run(found.samples)), samples=len(found.samples.held_out),
        )  # fmt: skip
        return commit(writer, manifest, replace(report, **repair_fields(found.benches)))


def _self_test(graph: GraphFile, found: GraphResult, threads: int) -> tuple[GraphTest, bytes, bytes]:
    floats = not found.chosen.recipe.integer_activations
    session = graph.open(threads)
    try:
        feeds = found.samples.held_out
        # A sample on which every output is 0 tells nothing of a runtime that returns zeros.
        telling = (feed for feed in feeds if any(array.any() for array in session.run(feed).values()))
        sample = next(telling, feeds[0])
        return record_graph_test(session, sample, tolerance=_FLOAT_TOLERANCE if floats else _INTEGER_TOLERANCE)
    finally:
        session.close()


def described(graph: ir.Model, model: Model, options: BuildOptions) -> dict[str, Any]:
    """What a user of the bundle must know of the graph.

    Args:
        graph: The graph.
        model: What it was made from.
        options: What was asked for.

    Raises:
        InputError: A file of how pictures or recordings become its inputs does not fit the graph.
    """
    config = model.config
    inputs = input_shapes(graph)
    return {
        "arch": config.arch if config else "graph",
        "inputs": inputs,
        "outputs": {str(value.name): _shape(value) for value in graph.graph.outputs},
        **(_limits(config) if isinstance(config, EncoderConfig) else {}),
        **read_media_settings(options, inputs),
    }


def input_shapes(graph: ir.Model) -> dict[str, list[int | str]]:
    """The shapes of a graph's inputs by name; a size that is free is a name."""
    return {str(value.name): _shape(value) for value in graph.graph.inputs}


def _limits(config: EncoderConfig) -> dict[str, Any]:
    """How long the texts of an encoder may be, in tokens: what it has positions for, and what it was trained for."""
    trained = config.extra.get("max_seq_length")
    return {"max_positions": config.max_positions, **({"max_seq_length": trained} if trained else {})}


def _shape(value: ir.Value) -> list[int | str]:
    dims = value.shape.dims if value.shape is not None else ()
    return [dim if isinstance(dim, int) else str(dim.value or "?") for dim in dims]


def not_run(samples: Samples) -> Iterator[NotRun]:
    """What was not done for want of samples."""
    if not samples.real:
        yield NotRun("your own samples", f"none were given; they are {samples.source}")
    if samples.shared:
        yield NotRun("calibration apart from verification", "too few samples to keep them apart")
