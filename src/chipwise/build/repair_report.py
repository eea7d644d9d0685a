"""What the repair of a graph came to, in the words of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import onnx_ir as ir

from chipwise.build.attempt import Attempt, Tried, worst
from chipwise.build.compiled_graph import CompiledGraph
from chipwise.build.repair import Bench
from chipwise.check.constants import constant_tensor
from chipwise.check.infer import infer_types
from chipwise.check.symbolic import static_shape
from chipwise.report.repair import KeptInFloat16, LayerLoss, RepairTry
from chipwise.toolchain.rknn_accuracy import value_of
from chipwise.toolchain.rknn_log import RknnLayer

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


class RepairFields(TypedDict):
    """The fields of a report that a repair fills."""

    repairs: tuple[RepairTry, ...]
    losses: tuple[LayerLoss, ...]
    kept_float16: tuple[KeptInFloat16, ...]


def repair_fields(benches: Sequence[Bench]) -> RepairFields:
    """What was tried of all recipes, and of the last one, which is kept, its layers and what stays in float16."""
    tries = tuple(_try(bench, tried) for bench in benches if len(bench.tried) > 1 for tried in bench.tried)
    best = benches[-1].best if benches else None
    compiled = None if best is None else best.compiled
    if best is None or compiled is None:
        return {"repairs": tries, "losses": (), "kept_float16": ()}
    plain = benches[-1].tried[0].compiled
    kept = kept_in_float16(best.attempt, compiled, compiled if plain is None else plain)
    return {"repairs": tries, "losses": layer_losses(compiled), "kept_float16": kept}


def layer_losses(compiled: CompiledGraph) -> tuple[LayerLoss, ...]:
    """Each layer against float, in order. The type is that of the layer that bears the name of the same value."""
    graph = ir.load(compiled.source).graph
    names = [str(value.name) for node in graph for value in node.outputs]
    dtypes: dict[tuple[str | None, str], str] = {}
    for layer in _layers(compiled):
        value = value_of(layer.name.partition(":")[2], names)
        # A product is listed by what it was fused with: Conv, ConvAdd, ConvExSwish.
        for op_type in (layer.op_type, "Conv" if layer.op_type.startswith("Conv") else ""):
            dtypes.setdefault((value, op_type), layer.dtype)
    found = []
    for row in compiled.losses:
        value = value_of(row.tensor, names)
        dtype = "" if value is None else dtypes.get((value, row.op_type), "")
        found.append(
            LayerLoss(row.tensor, row.op_type, dtype, row.cosine, row.distance, row.own_cosine, row.own_distance)
        )
    return tuple(found)


def kept_in_float16(attempt: Attempt, compiled: CompiledGraph, plain: CompiledGraph) -> tuple[KeptInFloat16, ...]:
    """What each value that stays in float16 costs beside the plain build.

    A byte a number more; the same for the weights of a product. Cycles are those of the layers that bear its name.
    """
    if not attempt.float16:
        return ()
    model = ir.load(attempt.graph.path)
    infer_types(model)
    nodes = {str(value.name): node for node in model.graph for value in node.outputs}
    now, before = _cycles(compiled, nodes), _cycles(plain, nodes)
    found = []
    for name in attempt.float16:
        node = nodes[name]
        more = math.prod(static_shape(node.outputs[0]) or (0,))
        if node.op_type in _PRODUCTS:
            weights = (constant_tensor(value) for value in node.inputs)
            more += sum(int(tensor.size) for tensor in weights if tensor is not None)
        cycles = now.get(name, 0) - before.get(name, 0)
        estimated = bool(now.get(name) or before.get(name))
        found.append(KeptInFloat16(name, more, cycles if estimated else None))
    return tuple(found)


def _try(bench: Bench, tried: Tried) -> RepairTry:
    attempt, trial = tried.attempt, tried.trial
    if trial is None:
        return RepairTry(attempt.recipe.name, attempt.change, None, None, False, False, note=tried.note)
    channel, whole = worst(trial)
    compiled = tried.compiled
    return RepairTry(
        recipe=attempt.recipe.name,
        change=attempt.change,
        output_cosine=whole,
        channel_cosine=channel,
        passed=trial.passed,
        kept=bench.kept(tried),
        size_bytes=None if compiled is None else compiled.file.file_bytes,
        cycles=compiled.placements[0].total_cycles if compiled is not None and compiled.placements else None,
        float16=len(attempt.float16),
    )


def _layers(compiled: CompiledGraph) -> list[RknnLayer]:
    if not compiled.placements:
        return []
    return [layer for segment in compiled.placements[0].segments for layer in segment.layers]


def _cycles(compiled: CompiledGraph, names: dict[str, ir.Node]) -> dict[str, int]:
    """The compiler's estimate by the value that a layer computes."""
    found: dict[str, int] = {}
    for layer in _layers(compiled):
        name = value_of(layer.name.partition(":")[2], names)
        if name is not None:
            found[name] = found.get(name, 0) + layer.total_cycles
    return found
