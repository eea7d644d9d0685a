"""Boundaries: a decoder's graph made ready to be cut between the values that chipwise names. Host side only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir
from google.protobuf.message import DecodeError

from chipwise.errors import GraphError
from chipwise.model.decoder import names
from chipwise.rewrite.edit import inline_functions

_SKIP_NORM = "SkipSimplifiedLayerNormalization"
_TABLES = ("rope_cos", "rope_sin")


def cuttable(path: Path) -> ir.Model:
    """A decoder's graph whose boundaries are computed values of known names; it computes what it did.

    1. Functions are inlined.
    2. ``SkipSimplifiedLayerNormalization`` becomes a sum, which is the residual stream, and a norm behind it.
    3. Rotary tables that attention reads as constants get an Identity behind them: ``rope.cos``, ``rope.sin``.
    4. What decode makes of cache and new token is called ``layers.N.keys`` and ``layers.N.values``.

    Args:
        path: The ONNX file. Weights stay where they lie.

    Raises:
        GraphError: The file holds no ONNX graph.
    """
    model = _load(path)
    inline_functions(model)
    _split_skip_norms(model.graph)
    _name_tables(model.graph)
    _name_caches(model.graph)
    return model


def joined(layer: int, part: str) -> str:
    """All keys or values that a token of decode looks at; part is ``key`` or ``value``."""
    return f"layers.{layer}.{part}s"


def _load(path: Path) -> ir.Model:
    try:
        return ir.load(path)
    except OSError as e:
        raise GraphError(f"cannot read ({e.strerror})", where=str(path)) from e
    except DecodeError as e:
        raise GraphError(f"not an ONNX file ({e})", where=str(path)) from e


def _split_skip_norms(graph: ir.Graph) -> None:
    for node in [node for node in graph if node.op_type == _SKIP_NORM]:
        one, other, weight = node.inputs[:3]
        epsilon = node.attributes.get_float("epsilon", 1e-5)
        add = ir.node("Add", [one, other])
        norm = ir.node(
            "SimplifiedLayerNormalization", [add.outputs[0], weight], {"epsilon": epsilon, "axis": -1, "stash_type": 1}
        )
        graph.insert_after(node, [add, norm])
        pairs = [(node.outputs[0], norm.outputs[0])]
        if len(node.outputs) > 3:
            pairs.append((node.outputs[3], add.outputs[0]))
        for old, new in pairs:
            name = old.name
            new.type, new.shape = old.type, old.shape
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            old.name = f"{name}.fused"
            new.name = name
        graph.remove(node, safe=True)


def _name_tables(graph: ir.Graph) -> None:
    computed = {value.name for node in graph for value in node.outputs}
    for name in [name for name in graph.initializers if name.startswith(_TABLES)]:
        named = name.replace("_", ".", 1)
        if named in computed or not _is_table(name):
            continue
        value = _behind_pair(graph.initializers[name])
        uses = list(value.uses())
        identity = ir.node("Identity", [value])
        identity.outputs[0].type, identity.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), value.shape
        identity.outputs[0].name = named
        producer = value.producer()
        if producer is None:
            users = {node for node, _ in uses}
            graph.insert_before(next(node for node in graph if node in users), identity)
        else:
            graph.insert_after(producer, identity)
        for user, index in uses:
            user.replace_input_with(index, identity.outputs[0])


def _is_table(name: str) -> bool:
    """Whether this is a table itself and not the scale of one."""
    return name in {table + kind for table in _TABLES for kind in ("", "_local")}


def _name_caches(graph: ir.Graph) -> None:
    inputs = {str(value.name): value for value in graph.inputs}
    for layer in _layers(inputs):
        for part in ("key", "value"):
            read = _behind_pair(inputs[names.past(layer, part)])
            joins = [node for node, _ in read.uses() if node.op_type == "Concat"]
            if len(joins) == 1:
                _behind_pair(joins[0].outputs[0]).name = joined(layer, part)


def _layers(inputs: dict[str, ir.Value]) -> Iterator[int]:
    layer = 0
    while names.past(layer, "key") in inputs:
        yield layer
        layer += 1


def _behind_pair(value: ir.Value) -> ir.Value:
    """What the users of a value read: itself, or what 8 bits leave of it."""
    users = [node for node, _ in value.uses()]
    if len(users) != 1 or users[0].op_type != "QuantizeLinear":
        return value
    readers = [node for node, _ in users[0].outputs[0].uses()]
    if len(readers) != 1 or readers[0].op_type != "DequantizeLinear":
        return value
    return readers[0].outputs[0]
