"""What a log of rknn-toolkit2 gives reason to tell the user, as findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from chipwise.report import Finding, Severity
from chipwise.toolchain.rknn_log import RknnLayer, RknnLog, RknnMessage

BORDERS = frozenset({"InputOperator", "OutputOperator"})
"""Rows of the table that stand for inputs and outputs."""

# By operator: what was seen to run on the NPU in its place, or why it is best left where it is.
_CUT = "keep it on the CPU on purpose: cut it off the graph and run it on the graph's"
_REMEDIES = {
    "Erf": "rewrite available: erf_by_tanh; or write GELU as its whole pattern, which the compiler fuses",
    "Mish": "rewrite available: activation_forms writes it as x * Tanh(Softplus(x)), which runs on the NPU",
    "Einsum": "rewrite available: einsum_by_matmul",
    "Gather": f"{_CUT} inputs (an embedding is looked up on the host, and the NPU graph takes its rows)",
    "TopK": f"{_CUT} outputs",
    "ArgMax": f"{_CUT} outputs",
    "Reshape": "other form: give the border tensor the shape of the NPU's graph there, and reshape it on the host",
    "Transpose": "other form: at most 4 dimensions (rk3566, rk3568: dimensions 1 and 3 exchanged); or on the host",
    "Exp": "other form: Softmax, Sigmoid or Tanh, if the graph means one of them",
    "Greater": "other form: arithmetic on the NPU, or a mask that comes as an input or a constant",
    "exSoftmax13": "none: rk3566 and rk3568 have no softmax on their NPU; take another chip, or keep it on purpose",
    "Not": "other form: 1 - x on a float mask, or a mask that comes as an input or a constant",
    "ScatterElements": "other form: ScatterND, which runs on the NPU",
}  # fmt: skip
_UNKNOWN_REMEDY = (
    "other form: write it with operators that run on the NPU; or keep it on the CPU on purpose and measure"
)
_TOO_WIDE = (
    "an output of more columns than the NPU hands out: split it into outputs of at most 8192 columns, compute the last "
    "row only, or put out the transposed result, which stays on the NPU"
)
_FALLBACK = re.compile(r"fall ?back to cpu", re.IGNORECASE)


def find(log: RknnLog, on_cpu: Sequence[tuple[RknnLayer, int | None]]) -> Iterator[Finding]:
    """The findings of one log, errors first.

    Args:
        log: The log.
        on_cpu: Each layer on the CPU with the bytes it reads and writes, None where not known.
    """
    if not log.complete:
        yield _no_table(log)
    for name, op_type in log.not_lowered:
        yield _no_lowering(name, op_type)
    for message in log.messages:
        if _FALLBACK.search(message.text):
            yield _fallback(message)
        elif message.level == "E":
            # The toolkit's methods say E and fail; the native compiler says E on builds that are good.
            yield _error(message, "error" if message.source != "RKNN" or not log.complete else "warning")
    if log.complete and not any(layer.unit == "NPU" and layer.op_type not in BORDERS for layer in _layers(log)):
        yield _nothing_on_npu(log)
    refused = {op_type for _, op_type in log.not_lowered}
    for layer, crossing_bytes in on_cpu:
        if layer.op_type not in refused:
            yield _on_cpu(layer, crossing_bytes)


def _layers(log: RknnLog) -> Iterator[RknnLayer]:
    return (layer for graph in log.graphs for layer in graph.layers)


def _nothing_on_npu(log: RknnLog) -> Finding:
    kinds = sorted({layer.op_type for layer in _layers(log)} - BORDERS)
    return Finding(
        rule="rknn_nothing_on_npu",
        severity="warning",
        where=", ".join(kinds[:4]),
        measured="0 operators on the NPU",
        limit="the model's work",
        message="all of it runs on the CPU: this file gains nothing from the chip",
        remedy="run the ONNX graph with --target host on the board's CPU, or write it with operators of the NPU",
    )


def _no_table(log: RknnLog) -> Finding:
    unread = [row for graph in log.graphs for row in graph.unread]
    rows = sum(len(graph.layers) for graph in log.graphs)
    return Finding(
        rule="rknn_no_placement",
        severity="error",
        where=unread[0] if unread else "Network Layer Information Table",
        measured=f"{rows} rows understood, {len(unread)} not",
        limit="a whole table for each graph",
        message="the log does not show where the operators run, so the build is not believed",
        remedy="see the errors of the log; a table in a new form needs a chipwise that knows this toolkit's version",
    )


def _no_lowering(name: str, op_type: str) -> Finding:
    return Finding(
        rule="rknn_no_lowering",
        severity="error",
        where=name,
        measured=op_type,
        limit="operators that the compiler implements",
        message=f"the compiler has no implementation of {op_type}, yet reports success",
        remedy=f"write {op_type} with other operators, or cut it off the graph and run it on the host",
    )


def _fallback(message: RknnMessage) -> Finding:
    found = re.match(r"(\w+) will fall", message.text)
    return Finding(
        rule="rknn_fallback",
        severity="warning",
        where=found[1] if found else "an operator that the toolkit does not name",
        measured=f"printed {message.count} times",
        limit="0",
        message=f"it is left to the CPU for its size: {message.text}",
        remedy=_TOO_WIDE
        if "channel is too large" in message.text
        else "split it along the dimension that is too large",
    )


def _error(message: RknnMessage, severity: Severity) -> Finding:
    return Finding(
        rule="rknn_message",
        severity=severity,
        where=message.source or "rknn-toolkit2",
        measured=f"printed {message.count} times",
        limit="0",
        message=message.text,
        remedy=_TOO_WIDE
        if message.text.startswith("REGTASK")
        else "change what it names; if it names nothing, halve the graph to find the operator it comes from",
    )


def _on_cpu(layer: RknnLayer, crossing_bytes: int | None) -> Finding:
    crossing = "an unknown number of" if crossing_bytes is None else str(crossing_bytes)
    return Finding(
        rule="rknn_cpu_operator",
        severity="warning",
        where=layer.name or f"layer {layer.index}",
        measured=f"{layer.unit}, {crossing} bytes read and written",
        limit="NPU",
        message=f"{layer.op_type} ({layer.dtype}) runs on the {layer.unit}, and what it reads and writes crosses over",
        remedy=_REMEDIES.get(layer.op_type, _UNKNOWN_REMEDY),
    )
