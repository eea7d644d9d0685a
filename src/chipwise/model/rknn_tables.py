"""RknnTables: the graph in the FlatBuffer of a .rknn file of format version 6."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal

from chipwise.model.flat_table import FlatBytes, FlatTable

Unit = Literal["npu", "cpu", "unknown"]

# Numbers of fields in the root, a graph, a tensor, an operator and the memory's table.
_GRAPHS, _FRAMEWORK, _MEMORY = 2, 9, 19
_TENSORS, _NODES, _INPUTS, _OUTPUTS = 0, 1, 2, 3
_DTYPE, _SHAPE, _TENSOR_NAME, _SCALE, _ZERO_POINT = 0, 4, 5, 10, 11
_NODE_TYPE, _NODE_NAME, _NODE_UNIT, _NODE_INPUTS, _NODE_OUTPUTS = 1, 2, 3, 4, 5
_WEIGHTS, _INTERNAL = 0, 1

# Codes that the toolkit's printed tables confirm.
_DTYPES = {1: "float32", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 10: "float16", 64: "int4"}
_BITS = {"float32": 32, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "float16": 16, "int4": 4}
_UNITS: dict[int, Unit] = {0: "cpu", 2: "npu"}
_BORDERS = {"InputOperator", "OutputOperator"}
# What one operator takes as Python objects, beside its two texts, rounded up.
_OPERATOR_BYTES = 128


@dataclass(frozen=True)
class RknnTensor:
    """One input or output.

    Attributes:
        name: Its name.
        shape: Its sizes, in elements, as the model was given to the toolkit.
        dtype: How the chip takes it, e.g. ``int8``; ``unknown`` with the code where the code's meaning is not known.
        scale: The value of one step of an integer type; None where it has none.
        zero_point: The integer that stands for 0; None where it has none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None


@dataclass(frozen=True)
class RknnOperator:
    """One operator: its type as the compiler calls it, its name, and the unit it runs on."""

    __slots__ = ("name", "type", "unit")

    type: str
    name: str
    unit: Unit


@dataclass(frozen=True)
class RknnCrossing:
    """A tensor that one unit writes and another reads.

    Attributes:
        tensor: Its name, shape and type.
        writer: The unit whose operator writes it.
        reader: The unit whose operators read it.
        bytes: Its size without padding; None where the type is not known.
    """

    tensor: RknnTensor
    writer: Unit
    reader: Unit
    bytes: int | None


@dataclass(frozen=True)
class RknnTables:
    """The borders, operators and crossings of the first graph, and the memory the model takes on the board.

    A model for several input shapes has a graph for each.
    """

    graphs: int
    framework: str
    inputs: tuple[RknnTensor, ...]
    outputs: tuple[RknnTensor, ...]
    operators: tuple[RknnOperator, ...]
    crossings: tuple[RknnCrossing, ...]
    weight_bytes: int | None
    internal_bytes: int | None


def read_tables(flat: FlatBytes) -> RknnTables:
    """Read the tables of a .rknn file.

    Args:
        flat: The FlatBuffer of the file.

    Raises:
        ModelFormatError: They are damaged.
    """
    root = flat.root()
    graph = root.element(_GRAPHS, 0)
    memory = root.child(_MEMORY)
    operators, crossings = _operators(flat, graph)
    return RknnTables(
        graphs=root.length(_GRAPHS),
        framework=root.text(_FRAMEWORK),
        inputs=_tensors(flat, graph, _INPUTS),
        outputs=_tensors(flat, graph, _OUTPUTS),
        operators=operators,
        crossings=crossings,
        weight_bytes=memory.number(_WEIGHTS, "Q") if memory else None,
        internal_bytes=memory.number(_INTERNAL, "Q") if memory else None,
    )


def _tensors(flat: FlatBytes, graph: FlatTable, which: int) -> tuple[RknnTensor, ...]:
    found = []
    for index in graph.numbers(which, "I"):
        flat.charge(_OPERATOR_BYTES)
        found.append(_tensor(flat, graph.element(_TENSORS, index)))
    return tuple(found)


def _tensor(flat: FlatBytes, table: FlatTable) -> RknnTensor:
    code = table.number(_DTYPE, "B")
    scales, zero_points = table.numbers(_SCALE, "f"), table.numbers(_ZERO_POINT, "i")
    if any(not math.isfinite(scale) or scale < 0 for scale in scales):
        raise flat.damaged("a scale is no number above 0")
    return RknnTensor(
        name=table.text(_TENSOR_NAME),
        shape=table.numbers(_SHAPE, "I"),
        dtype=_DTYPES.get(code, f"unknown (code {code})"),
        # Activations have one scale for the whole tensor.
        scale=scales[0] if len(scales) == 1 else None,
        zero_point=zero_points[0] if len(zero_points) == 1 else None,
    )


def _operators(flat: FlatBytes, graph: FlatTable) -> tuple[tuple[RknnOperator, ...], tuple[RknnCrossing, ...]]:
    """The operators in order, and the tensors that pass from one unit to another."""
    found, crossings = [], []
    writers: dict[int, Unit] = {}
    seen: set[tuple[int, Unit]] = set()
    for index in range(graph.length(_NODES)):
        flat.charge(_OPERATOR_BYTES)
        node = graph.element(_NODES, index)
        kind = sys.intern(node.text(_NODE_TYPE))
        if kind in _BORDERS:
            continue
        unit = _UNITS.get(node.number(_NODE_UNIT, "B"), "unknown")
        found.append(RknnOperator(kind, node.text(_NODE_NAME), unit))
        for tensor in node.numbers(_NODE_INPUTS, "I"):
            writer = writers.get(tensor, unit)
            if writer != unit and (tensor, unit) not in seen:
                flat.charge(_OPERATOR_BYTES)
                seen.add((tensor, unit))
                crossings.append(_crossing(flat, graph, tensor, writer, unit))
        for tensor in node.numbers(_NODE_OUTPUTS, "I"):
            flat.charge(_OPERATOR_BYTES)
            writers[tensor] = unit
    return tuple(found), tuple(crossings)


def _crossing(flat: FlatBytes, graph: FlatTable, index: int, writer: Unit, reader: Unit) -> RknnCrossing:
    tensor = _tensor(flat, graph.element(_TENSORS, index))
    bits = _BITS.get(tensor.dtype)
    size = None if bits is None else (math.prod(tensor.shape) * bits + 7) // 8
    return RknnCrossing(tensor, writer, reader, size)
