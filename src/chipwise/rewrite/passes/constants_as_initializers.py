"""Constants as initializers: what never changes stands where toolchains look for it, and functions are written out."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from chipwise.check.constants import constant_tensor
from chipwise.check.infer import infer_types
from chipwise.rewrite.edit import Patch, all_nodes, inline_functions, lift_constants
from chipwise.rewrite.pass_ import EXACT, PassResult, RewriteContext, Tolerance


@dataclass(frozen=True)
class ConstantsAsInitializers:
    """Turn every Constant node into an initializer, after the model's own functions are inlined.

    rknn-toolkit2 2.5.0 reads Constant nodes that hold a tensor alone: its ``load_onnx`` ends with ``'float' object has
    no attribute 'HasField'`` on one that holds a plain number.

    1. The model's own functions are put where they are called, so that the constants in them count too.
    2. ``value``, ``value_float(s)``, ``value_int(s)`` and ``value_string(s)``, in subgraphs too.
    3. A Constant that is a graph output gets an Identity, for an initializer cannot take over the output's name.
    """

    name: str = "constants_as_initializers"
    requires: tuple[str, ...] = ()
    optional: bool = False
    tolerance: Tolerance = EXACT

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Lift the constants."""
        n_functions = len(model.functions)
        inline_functions(model)
        constants = [node for node in all_nodes(model) if node.op_type == "Constant" and not node.domain]
        for node in constants:
            tensor = constant_tensor(node.outputs[0])
            if node.outputs[0].is_graph_output() and tensor is not None:
                patch = Patch(node)
                patch.replace(node.outputs[0], patch.constant(tensor.numpy()))
                node.graph.remove(node, safe=True)  # type: ignore[union-attr]  # Patch has seen to it
        lift_constants(model)
        if n_functions or constants:
            infer_types(model)
        notes = [f"{n_functions} functions inlined"] if n_functions else []
        if constants:
            notes.append(f"{len(constants)} Constant nodes became initializers")
        return PassResult(model, bool(notes), tuple(notes))
