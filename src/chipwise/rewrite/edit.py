"""Patch: new nodes that take the place of values of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    RemoveUnusedFunctionsPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
)

from chipwise.check.put_in_order import name_outputs
from chipwise.check.weightless import drop_unused_initializers


class Patch:
    """Builds nodes beside one node and puts their results in the place of old values.

    Args:
        node: The node that the new nodes are put in front of.
    """

    def __init__(self, node: ir.Node) -> None:
        graph = node.graph
        if graph is None:
            raise ValueError("the node belongs to no graph")
        self._anchor = node
        self._graph = graph
        self._behind = False

    @classmethod
    def behind(cls, node: ir.Node) -> Patch:
        """A patch whose nodes come right after a node."""
        patch = cls(node)
        patch._behind = True
        return patch

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        like: ir.Value | None = None,
        domain: str = "",
    ) -> ir.Value:
        """Add a node of one output.

        Args:
            op_type: The operator.
            inputs: Its inputs.
            attributes: Its attributes.
            like: A value of the same type and shape as the output, if there is one.
            domain: The operator's domain.
        """
        node = ir.node(op_type, inputs, attributes=dict(attributes or {}), domain=domain)
        if like is not None:
            node.outputs[0].type = like.type
            node.outputs[0].shape = None if like.shape is None else like.shape.copy()
        if self._behind:
            self._graph.insert_after(self._anchor, node)
            self._anchor = node
        else:
            self._graph.insert_before(self._anchor, node)
        return node.outputs[0]

    def constant(
        self,
        array: npt.NDArray[Any] | float | int,
        dtype: ir.DataType | None = None,
        *,
        hint: str = "chipwise_const",
    ) -> ir.Value:
        """Add a constant, of the given type if one is given, as an initializer whose name begins with a hint."""
        values = np.asarray(array) if dtype is None else np.asarray(array).astype(dtype.numpy())
        return add_constant(self._graph, values, hint)

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Let every use of ``old``, as a graph output too, take ``new``; a graph output keeps its name."""
        if old.is_graph_output():
            name = old.name
            if new.is_graph_input() or new.is_graph_output() or new.is_initializer():
                new = self.op("Identity", [new], like=old)
            new.type, new.shape = old.type, old.shape
            old.name = self._free_name(f"{name}/before")
            new.name = name
        elif new.type is None:
            new.type, new.shape = old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)

    def _free_name(self, name: str) -> str:
        """The name, with a number behind it if a node of the graph has it."""
        taken = {value.name for node in self._graph for value in node.outputs}
        return next(one for number in count() if (one := f"{name}_{number}" if number else name) not in taken)


def add_constant(graph: ir.Graph, array: npt.NDArray[Any], hint: str = "chipwise_const") -> ir.Value:
    """Add an initializer of a fresh name to a graph."""
    number = len(graph.initializers)
    while f"{hint}_{number}" in graph.initializers:
        number += 1
    name = f"{hint}_{number}"
    tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """Every node of a model, those of subgraphs and functions too; a list is taken first, so editing is safe."""
    roots: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for root in roots:
        yield from list(ir.traversal.RecursiveGraphIterator(root))


def remove_unused(model: ir.Model) -> None:
    """Remove the nodes and initializers that nothing uses any more."""
    RemoveUnusedNodesPass()(model)
    # It takes the names of optional outputs that nobody reads.
    name_outputs(model)
    drop_unused_initializers(model)


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of the model's own functions where they are called."""
    if model.functions:
        InlinePass()(model)
        RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
        RemoveUnusedOpsetsPass()(model)


def lift_constants(model: ir.Model) -> None:
    """Turn Constant nodes into initializers: converters and checks then read both alike."""
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)


def attribute_int(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute, or the default the operator's definition gives it."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()
