"""Placement: which operators of a compiled graph run on the NPU, which on the CPU, and what crosses between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

from chipwise.report import Finding
from chipwise.toolchain.rknn_findings import BORDERS, find
from chipwise.toolchain.rknn_log import RknnGraph, RknnLayer, RknnLog, Unit

_BITS = {
    "INT4": 4, "INT8": 8, "UINT8": 8, "BOOL": 8, "INT16": 16, "FLOAT16": 16, "INT32": 32, "FLOAT": 32, "INT64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Segment:
    """Operators that run one after the other on one unit.

    Attributes:
        unit: The unit.
        layers: The operators, in order; at least one.
    """

    unit: Unit
    layers: tuple[RknnLayer, ...]


@dataclass(frozen=True)
class CpuOperator:
    """An operator that the compiler left to the CPU.

    Attributes:
        layer: Its row.
        read_bytes: Bytes of the activations it reads, without padding; None where a type or the table is not known.
        written_bytes: Bytes it writes, without padding; None where a type is not known or shapes are hidden.
    """

    layer: RknnLayer
    read_bytes: int | None
    written_bytes: int | None

    @property
    def crossing_bytes(self) -> int | None:
        """Bytes read and written, None if either is not known."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True)
class Placement:
    """Where a compiled graph runs.

    Attributes:
        segments: The operators in order of execution, without the ones that stand for inputs and outputs.
        cpu_operators: Those on the CPU, with their bytes.
        internal_bytes: Memory of the activations on the board; None if the log does not say.
        weight_bytes: Memory of the constants on the board; None if the log does not say.
    """

    segments: tuple[Segment, ...]
    cpu_operators: tuple[CpuOperator, ...]
    internal_bytes: int | None
    weight_bytes: int | None

    @property
    def npu_segments(self) -> int:
        """How many times work is handed to the NPU in one run."""
        return sum(segment.unit == "NPU" for segment in self.segments)

    @property
    def npu_operators(self) -> int:
        """How many operators run on the NPU."""
        return sum(len(segment.layers) for segment in self.segments if segment.unit == "NPU")

    @property
    def total_cycles(self) -> int:
        """The compiler's estimate over all operators that it estimates."""
        return sum(layer.total_cycles for segment in self.segments for layer in segment.layers)

    @property
    def crossing_bytes(self) -> int:
        """Bytes that operators on the CPU read and write, as far as known.

        What one of them hands to the next is in it too, for the log does not say who wrote a tensor; the compiled file
        does (`chipwise.model.rknn_file`).
        """
        return sum(operator.crossing_bytes or 0 for operator in self.cpu_operators)

    def crossing_words(self) -> str:
        """``crossing_bytes`` in words, with what is not known of it."""
        unknown = sum(operator.crossing_bytes is None for operator in self.cpu_operators)
        return (
            f"at least {self.crossing_bytes} bytes ({unknown} unknown)" if unknown else f"{self.crossing_bytes} bytes"
        )


def placements_of(log: RknnLog) -> tuple[Placement, ...]:
    """The placement of each graph of a build; see `findings_of` for whether they can be believed."""
    return tuple(_placement(graph) for graph in log.graphs)


def findings_of(log: RknnLog) -> tuple[Finding, ...]:
    """What to know about a build and what to do about it, each operator once.

    Returns:
        The findings; one of severity ``error`` means that the build cannot be believed.
    """
    # The first graph is of the largest shape: its bytes are kept.
    on_cpu = {
        (operator.layer.name, operator.layer.op_type): (operator.layer, operator.crossing_bytes)
        for placement in reversed(placements_of(log))
        for operator in placement.cpu_operators
    }
    return tuple(find(log, list(on_cpu.values())))


def _placement(graph: RknnGraph) -> Placement:
    layers = [layer for layer in graph.layers if layer.op_type not in BORDERS]
    segments = tuple(Segment(unit, tuple(group)) for unit, group in groupby(layers, key=lambda layer: layer.unit))
    on_cpu = tuple(
        CpuOperator(layer, _read_bytes(graph, layer), _written_bytes(layer)) for layer in layers if layer.unit != "NPU"
    )
    return Placement(segments, on_cpu, graph.internal_bytes, graph.weight_bytes)


def _read_bytes(graph: RknnGraph, layer: RknnLayer) -> int | None:
    reads = [read for read in graph.reads if read.layer == layer.index]
    sizes = [_bytes(read.shape, read.dtype) for read in reads]
    return _sum(sizes) if reads else None


def _written_bytes(layer: RknnLayer) -> int | None:
    # A hidden output may also be of another type: TopK's indices are INT64.
    if not layer.all_shown:
        return None
    return _sum([_bytes(shape, layer.dtype) for shape in layer.output_shapes])


def _bytes(shape: tuple[int, ...], dtype: str) -> int | None:
    bits = _BITS.get(dtype)
    return None if bits is None else math.ceil(math.prod(shape) * bits / 8)


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
