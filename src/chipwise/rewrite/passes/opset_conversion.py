"""Opset conversion: the graph in an opset that the target's toolchain reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import onnx
import onnx_ir as ir
from onnxscript.optimizer import fold_constants

from chipwise.check.infer import infer_types, quiet_libraries
from chipwise.check.opset_schema import accepted, is_standard, schema_of, survives, unchanged
from chipwise.check.weightless import weightless
from chipwise.errors import RewriteError
from chipwise.rewrite.edit import all_nodes, inline_functions, lift_constants, remove_unused
from chipwise.rewrite.opset.adapters import adapt
from chipwise.rewrite.opset.function_body import expand
from chipwise.rewrite.pass_ import ROUNDED, PassResult, RewriteContext, Tolerance

# Nodes that need no change wait here while the standard converter, which skips foreign domains, does the others.
_SHIELD = "chipwise.shield"

# A definition may be written in operators that need their own definitions; Attention takes two rounds.
_ROUNDS = 4


@dataclass(frozen=True)
class OpsetConversion:
    """Bring the default opset within what the toolchain takes.

    1. A model within the range stays as it is.
    2. A model below ``lowest`` is raised to it by onnx's version converter.
    3. A model above ``highest`` is lowered to it, node by node: a node whose operator did not change, or that the
       older definition takes as it is written, keeps its form.
    4. Split, Reshape, Resize, GridSample, Cast, CastLike, Softmax, BatchNormalization and the reductions lose what is
       newer and says nothing new.
    5. An operator that is too new and that ONNX defines by simpler ones (Gelu, Mish, LayerNormalization,
       RMSNormalization, Attention) is written out.
    6. The rest goes through onnx's version converter.
    7. What is left blocks the conversion and is named.

    Attributes:
        highest: The highest opset the toolchain takes; None for no limit.
        lowest: The lowest it takes.
    """

    highest: int | None = None
    lowest: int = 1
    name: str = "opset_conversion"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = ROUNDED

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Convert the model.

        Raises:
            RewriteError: An operator blocks the conversion; the message names it.
        """
        source = opset_of(model)
        if self.highest is not None and source > self.highest:
            return _lower(model, source, self.highest)
        if source < self.lowest:
            _inline(model)
            return PassResult(_convert(model, self.lowest), True, (f"raised opset {source} to {self.lowest}",))
        return PassResult(model, False)


def opset_of(model: ir.Model) -> int:
    """The model's default opset; 1 if it imports none."""
    imports = model.graph.opset_imports
    return imports.get("", imports.get("ai.onnx", 1))


def blocking_operators(model: ir.Model, highest: int) -> list[str]:
    """Operators that keep a model from being lowered to an opset, most frequent first; empty if none does.

    The model is not changed.
    """
    try:
        _lower(model.clone(), opset_of(model), highest)
    except _BlockedError as e:
        return e.operators
    return []


class _BlockedError(RewriteError):
    """Operators that cannot be lowered."""

    def __init__(self, operators: list[str], source: int, target: int, detail: str = "") -> None:
        super().__init__(
            f"opset {source} cannot be lowered to {target}: {', '.join(operators)} "
            f"{'blocks' if len(operators) == 1 else 'block'} it{detail}",
            remedy=f"export the model with opset {target}, or replace these operators",
        )
        self.operators = operators


def _lower(model: ir.Model, source: int, target: int) -> PassResult:
    _inline(model)
    infer_types(model)
    written_out: list[str] = []
    ready: set[ir.Node] = set()
    for _ in range(_ROUNDS):
        late = [node for node in _too_new(model, source, target) if node not in ready]
        ready |= {node for node in late if adapt(node, target)}
        done = expand(model, [node for node in late if node not in ready and not survives(node, target)], source)
        written_out += done
        if not done:
            break
        _fold(model)
    rest = [node for node in _too_new(model, source, target) if node not in ready]
    missing = Counter(node.op_type for node in rest if schema_of(node.op_type, target) is None)
    if missing:
        raise _BlockedError([op for op, _ in missing.most_common()], source, target)
    converted = _convert_rest(model, rest, source, target)
    remove_unused(converted)
    notes = [f"lowered opset {source} to {target}"]
    if written_out:
        counted = Counter(written_out).most_common()
        notes.append("wrote out " + ", ".join(f"{n} {op}" for op, n in counted))
    return PassResult(converted, True, tuple(notes))


def _too_new(model: ir.Model, source: int, target: int) -> list[ir.Node]:
    return [
        node
        for node in all_nodes(model)
        if is_standard(node) and not unchanged(node, source, target) and not accepted(node, source, target)
    ]


def _convert_rest(model: ir.Model, rest: list[ir.Node], source: int, target: int) -> ir.Model:
    """Let the standard converter change the nodes in ``rest``, and only them."""
    if not rest:
        _set_opset(model, target)
        return model
    left = set(rest)
    for node in all_nodes(model):
        if is_standard(node) and node not in left and not node.domain.startswith(_SHIELD):
            node.domain = _SHIELD
    model.graph.opset_imports[_SHIELD] = 1
    try:
        converted = _convert(model, target)
    except RewriteError as e:
        names = [op for op, _ in Counter(node.op_type for node in rest).most_common()]
        names = [op for op in names if e.what.split()[-1].rstrip(")") == op] or names
        raise _BlockedError(names, source, target, f" ({e.what})") from e
    for node in all_nodes(converted):
        if node.domain == _SHIELD:
            node.domain = ""
    converted.graph.opset_imports.pop(_SHIELD, None)
    _set_opset(converted, target)
    return converted


def _set_opset(model: ir.Model, opset: int) -> None:
    for graph in model.graphs():
        if "" in graph.opset_imports or graph is model.graph:
            graph.opset_imports[""] = opset
    # Old toolchains refuse a newer IR version than their onnx package knows. 8 holds all but 4-bit types and functions.
    needed = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    model.ir_version = min(model.ir_version, max(8, needed))


def _convert(model: ir.Model, target: int) -> ir.Model:
    """The standard converter, on the structure alone."""
    bare = weightless(model)
    try:
        converted = ir.from_proto(onnx.version_converter.convert_version(bare.proto, target))
    except (RuntimeError, ValueError) as e:
        raise RewriteError(
            f"onnx's converter fails on the way to opset {target}: {str(e).rsplit('failed: ', 1)[-1]}"
        ) from e
    bare.restore(converted)
    return converted


def _inline(model: ir.Model) -> None:
    inline_functions(model)
    lift_constants(model)


def _fold(model: ir.Model) -> None:
    """Compute the axes and shapes that written-out definitions compute from shapes that are known."""
    with quiet_libraries():
        fold_constants(model, onnx_shape_inference=True)
        remove_unused(model)
        lift_constants(model)
    infer_types(model)
