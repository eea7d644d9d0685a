"""Constant folding: what never changes is computed once, here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import onnx_ir as ir
from onnxscript.optimizer import optimize_ir

from chipwise.check.constants import constant_tensor
from chipwise.check.infer import infer_types, quiet_libraries
from chipwise.rewrite.edit import all_nodes, attribute_int, inline_functions, lift_constants, remove_unused
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance
from chipwise.rewrite.passes.widen_floats import widened

# A mask of 2048 x 2048 is folded (16 MiB in float32); an embedding table is not copied.
_MAX_VALUES = 1 << 22

# onnxscript keeps these by default. A mask starts with the first; nothing is won by keeping it.
_FOLDED_TOO = frozenset({"ConstantOfShape"})

_FLOATS = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})


@dataclass(frozen=True)
class ConstantFolding:
    """Compute constant parts of the graph, with onnxscript's optimizer.

    1. The model's own functions are inlined.
    2. ``Shape`` of known shapes and what follows from it (Gather, Concat, Range, Expand, ConstantOfShape).
    3. ``If`` whose condition is constant becomes its branch.
    4. Nodes that do nothing, equal nodes and equal constants go.
    5. A Cast of a floating-point initializer becomes an initializer of the other type, converted when it is read,
       so a float16 model of any size turns into float32 without being in memory twice.
    6. An If, Loop or shape that depends on data stays.
    """

    name: str = "constant_folding"
    requires: tuple[str, ...] = ("fix_shapes",)
    optional: bool = True
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Fold what can be folded."""
        before = _census(model)
        inline_functions(model)
        lift_constants(model)
        infer_types(model)
        _fold_weight_casts(model)
        with quiet_libraries():
            optimize_ir(
                model,
                num_iterations=4,
                input_size_limit=_MAX_VALUES,
                output_size_limit=_MAX_VALUES,
                should_fold=lambda node: True if node.op_type in _FOLDED_TOO else None,
            )
        remove_unused(model)
        infer_types(model)
        after = _census(model)
        gone, new = before - after, after - before
        if not gone and not new:
            return PassResult(model, False)
        return PassResult(model, True, (f"{before.total()} nodes became {after.total()}", *_notes("gone", gone)))


def _census(model: ir.Model) -> Counter[str]:
    return Counter(node.op_type for node in all_nodes(model) if node.op_type != "Constant")


def _notes(what: str, counts: Counter[str]) -> list[str]:
    if not counts:
        return []
    return [f"{what}: " + ", ".join(f"{count} {op}" for op, count in counts.most_common(6))]


def _fold_weight_casts(model: ir.Model) -> None:
    for node in all_nodes(model):
        if node.op_type != "Cast" or node.domain or node.outputs[0].is_graph_output():
            continue
        source = node.inputs[0]
        tensor = constant_tensor(source)
        target = ir.DataType(attribute_int(node, "to", 0))
        if tensor is None or tensor.dtype not in _FLOATS or target not in _FLOATS or node.graph is not model.graph:
            continue
        node.outputs[0].replace_all_uses_with(_cast_initializer(model.graph, tensor, target))
    remove_unused(model)


def _cast_initializer(graph: ir.Graph, tensor: ir.TensorProtocol, target: ir.DataType) -> ir.Value:
    name = f"{tensor.name}_as_{target.name.lower()}"
    if name in graph.initializers:
        return graph.initializers[name]

    lazy = widened(tensor, target)
    lazy.name = name
    value = ir.Value(name=name, type=ir.TensorType(target), shape=ir.Shape(tensor.shape.numpy()), const_value=lazy)
    graph.register_initializer(value)
    return value
