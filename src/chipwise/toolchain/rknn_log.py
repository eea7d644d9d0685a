"""RknnLog: what rknn-toolkit2 prints with ``verbose=True``, as typed rows.

The text is what the process wrote on the C file descriptors 1 and 2. Some of it is flushed only when the process ends
(``No lowering found`` is), so read it then. Formats as printed by version 2.5.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Unit = Literal["NPU", "CPU", "GPU"]
Level = Literal["E", "W"]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NATIVE = re.compile(r"^([DIWE]) RKNN: \[[\d:.]+\] ?(.*)$")
_PYTHON = re.compile(r"^([WE]) (?:(\w+): )?(.*)$")
_LAYER = re.compile(
    r"^(\d{1,9})\s+(\S+)\s+(\S+)\s+(NPU|CPU|GPU)\s+(\S+)\s+(\S+)"
    # a chip with sparse weights has a column more; a layer that the compiler adds may have no name
    r"\s+(\d{1,18})/(\d{1,18})/(\d{1,18})\s+(?:[\d.]+%\s+)?(\d{1,18})(?:\s+(\S.*))?$"
)
_TENSOR = re.compile(r"^(\d{1,9})\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\((?:\d{1,18},?)*\))\s+\(\S*\)\s+\|")
_MEMORY = re.compile(r"^Total (Internal|Weight) Memory Size: (\d{1,12}(?:\.\d{1,12})?(?:e\+\d\d)?)KB$")
_NO_LOWERING = re.compile(r"^No lowering found for: (.+?), node type = (\w+)")
_TITLES = {
    "Network Layer Information Table": "layers",
    "Feature Tensor Information Table": "tensors",
    "Const Tensor Information Table": "constants",
}
# Printed on good builds too, once for each operator on the CPU.
_NOISE = {"Unkown op target: 0"}
# Copies the compiler adds of a tensor that is already listed, in another layout.
_COPY = "_exSecondary"


@dataclass(frozen=True)
class RknnLayer:
    """One row of the `Network Layer Information Table`.

    Attributes:
        index: Its place in the order of execution, from 0.
        op_type: The operator as the compiler calls it, e.g. ``ConvRelu``.
        dtype: The type it computes in, e.g. ``INT8``.
        unit: Where it runs.
        input_shapes: Sizes of its inputs in elements, constants included; as many as are shown.
        output_shapes: Sizes of its outputs in elements, as many as are shown.
        all_shown: False if the table hides shapes behind ``...``.
        ddr_cycles: Estimated cycles of memory traffic; 0 where the compiler does not estimate.
        npu_cycles: Estimated cycles of computing; 0 where the compiler does not estimate.
        total_cycles: Estimated cycles in all; 0 where the compiler does not estimate.
        traffic_kb: KB read and written, rounded as printed.
        name: The full name, e.g. ``Conv:stem``; empty for some layers that the compiler adds.
    """

    index: int
    op_type: str
    dtype: str
    unit: Unit
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    all_shown: bool
    ddr_cycles: int
    npu_cycles: int
    total_cycles: int
    traffic_kb: int
    name: str


@dataclass(frozen=True)
class RknnRead:
    """One row of the `Feature Tensor Information Table`: a tensor that a layer reads, constants left out."""

    layer: int
    tensor: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class RknnMessage:
    """An error or a warning, and how many times it was printed.

    Attributes:
        level: ``E`` or ``W``.
        source: ``RKNN`` for the native compiler, else the method that failed, e.g. ``config``; empty if none is named.
        text: The message.
        count: Times it was printed.
    """

    level: Level
    source: str
    text: str
    count: int


@dataclass(frozen=True)
class RknnGraph:
    """The tables of one graph: a model built for several input shapes has a graph for each.

    Attributes:
        layers: The layer table, in order of execution.
        complete: The table was there, to its last line, and every row of it was understood.
        reads: What each layer reads, if that table was printed.
        unread: Rows of the layer table that were not understood.
        internal_bytes: Memory of the activations on the board, from six printed digits; None if not printed.
        weight_bytes: Memory of the constants on the board, from six printed digits; None if not printed.
    """

    layers: tuple[RknnLayer, ...]
    complete: bool
    reads: tuple[RknnRead, ...]
    unread: tuple[str, ...]
    internal_bytes: int | None
    weight_bytes: int | None


@dataclass(frozen=True)
class RknnLog:
    """All that was read from a log.

    Attributes:
        graphs: The graphs in the order they were compiled; none if the build did not come that far.
        not_lowered: Name and type of each operator the compiler has no implementation of.
        messages: Errors and warnings, each once, in the order they came; without those that good builds print too.
    """

    graphs: tuple[RknnGraph, ...]
    not_lowered: tuple[tuple[str, str], ...]
    messages: tuple[RknnMessage, ...]

    @property
    def complete(self) -> bool:
        """There is a graph, and the table of each is whole."""
        return bool(self.graphs) and all(graph.complete for graph in self.graphs)


def read_rknn_log(text: str) -> RknnLog:
    """Read the verbose log of one build, whole or cut short.

    Args:
        text: What the process wrote on its standard output and error, joined or interleaved.

    Returns:
        What was understood of it. Nothing in it raises: a log is evidence, and its gaps are evidence too.
    """
    plain = [_ANSI.sub("", line).rstrip() for line in re.split(r"[\r\n]+", text)]
    lines = [(match[2] if (match := _NATIVE.match(line)) else line).strip() for line in plain]
    starts = [number for number, line in enumerate(lines) if _TITLES.get(line) == "layers"]
    return RknnLog(
        graphs=tuple(_graph(lines[start:end]) for start, end in pairwise([*starts, len(lines)])),
        not_lowered=tuple(dict.fromkeys((m[1], m[2]) for line in lines if (m := _NO_LOWERING.match(line)))),
        messages=_messages(plain),
    )


def _graph(lines: list[str]) -> RknnGraph:
    rows, closed = _table(lines, "layers")
    layers = [layer for row in rows if (layer := _layer(row)) is not None]
    unread = [row for row in rows if _layer(row) is None]
    in_order = [layer.index for layer in layers] == list(range(len(layers)))
    memory = {match[1]: round(float(match[2]) * 1024) for line in lines if (match := _MEMORY.match(line))}
    return RknnGraph(
        layers=tuple(layers),
        complete=closed and bool(layers) and not unread and in_order,
        reads=tuple(read for row in _table(lines, "tensors")[0] if (read := _read(row)) is not None),
        unread=tuple(unread),
        internal_bytes=memory.get("Internal"),
        weight_bytes=memory.get("Weight"),
    )


def _table(lines: list[str], wanted: str) -> tuple[list[str], bool]:
    """The rows of a graph's table, and whether the line of dashes that ends it was there."""
    rows: list[str] = []
    closed = False
    inside, dashes = "", 0
    for line in lines:
        if line in _TITLES:
            inside, dashes = _TITLES[line], 0
        elif inside == wanted and line.startswith("---"):
            # one under the title, one under the names of the columns, one after the rows
            dashes += 1
            if dashes == 3:
                inside, closed = "", True
        elif inside == wanted and dashes == 2 and line:
            rows.append(line)
    return rows, closed


def _layer(row: str) -> RknnLayer | None:
    match = _LAYER.match(row)
    if match is None:
        return None
    index, op_type, dtype, unit, inputs, outputs, ddr, npu, total, traffic, name = match.groups()
    target: Unit = "NPU" if unit == "NPU" else "GPU" if unit == "GPU" else "CPU"
    shown = "..." not in inputs + outputs
    cycles = (int(ddr), int(npu), int(total))
    return RknnLayer(int(index), op_type, dtype, target, _shapes(inputs), _shapes(outputs), shown, *cycles,
                     int(traffic), (name or "").strip())  # fmt: skip


def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    shapes = re.findall(r"\(((?:\d{1,18},?)*)\)", text)
    return tuple(tuple(int(size) for size in shape.split(",") if size) for shape in shapes)


def _read(row: str) -> RknnRead | None:
    match = _TENSOR.match(row)
    if match is None or match[3].endswith(_COPY):
        return None
    return RknnRead(int(match[1]), match[3], match[4], _shapes(match[6])[0])


def _messages(lines: Iterable[str]) -> tuple[RknnMessage, ...]:
    counts: Counter[tuple[Level, str, str]] = Counter()
    for line in lines:
        native, python = _NATIVE.match(line), _PYTHON.match(line)
        if native is not None:
            level, source, text = native[1], "RKNN", native[2].strip()
        elif python is not None:
            level, source, text = python[1], python[2] or "", python[3].strip()
        else:
            continue
        if level in ("E", "W") and text and text not in _NOISE and not _is_frame(text):
            counts["E" if level == "E" else "W", source, text] += 1
    return tuple(RknnMessage(*key, count) for key, count in counts.items())


def _is_frame(text: str) -> bool:
    # Around an error the toolkit prints its version and a traceback at the same level.
    return text.startswith(("rknn-toolkit2 version", "Traceback", "Catch exception"))
