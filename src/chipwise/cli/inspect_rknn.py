"""What `chipwise inspect` shows of a .rknn file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import click

from chipwise.cli.file_size import file_size
from chipwise.model.rknn_file import RknnCrossing, RknnFile, RknnOperator, RknnTensor


def show_rknn(file: RknnFile, *, as_json: bool) -> None:
    """Print what a .rknn file says about itself."""
    if as_json:
        click.echo(json.dumps(file.to_dict(), ensure_ascii=False, indent=2))
        return
    for label, text in _rows(file):
        click.echo(f"{label:<10} {_printable(text)}".rstrip())


def _rows(file: RknnFile) -> Iterator[tuple[str, str]]:
    yield "format", f"RKNN version {file.format_version}"
    yield "target", ", ".join(file.targets) or "none stated"
    yield "toolkit", file.toolkit_version
    yield "source", file.framework or "not stated"
    yield from _labelled("inputs", [_tensor_line(tensor) for tensor in file.inputs])
    yield from _labelled("outputs", [_tensor_line(tensor) for tensor in file.outputs])
    if file.graphs is not None and file.graphs > 1:
        yield "graphs", f"{file.graphs}, one for each input shape; the first is shown"
    if file.operators is None or file.crossings is None:
        yield "operators", f"unknown: the tables of format version {file.format_version} are not known"
    else:
        yield from _labelled("operators", operator_lines(file.operators))
        yield "crossing", _crossing_line(file.crossings)
    yield "weights", _size(file.weight_bytes)
    yield "internal", _size(file.internal_bytes)
    yield "file", _size(file.file_bytes)


def _labelled(label: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines or ["none"]:
        yield label, line
        label = ""


def _tensor_line(tensor: RknnTensor) -> str:
    sizes = "x".join(map(str, tensor.shape)) or "scalar"
    stored = f", scale {tensor.scale:g}" if tensor.scale is not None else ""
    stored += f", zero point {tensor.zero_point}" if tensor.zero_point is not None else ""
    kind = "type unknown" if tensor.dtype == "unknown" else tensor.dtype
    return f"{tensor.name}  {sizes} {kind}{stored}"


def operator_lines(operators: tuple[RknnOperator, ...]) -> list[str]:
    """How many run on each unit, then one line a type, the most frequent first; those off the NPU by name."""
    units = Counter(operator.unit for operator in operators)
    lines = [", ".join(f"{count} on {_UNIT_TEXTS[unit]}" for unit, count in sorted(units.items(), reverse=True))]
    kinds = Counter((operator.type, operator.unit) for operator in operators)
    for (kind, unit), count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        names = [operator.name for operator in operators if (operator.type, operator.unit) == (kind, unit)]
        shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
        lines.append(f"{count:>5} x {kind}" + ("" if unit == "npu" else f"  on {_UNIT_TEXTS[unit]}: {shown}"))
    return lines if operators else ["none"]


_UNIT_TEXTS = {"npu": "the NPU", "cpu": "the CPU", "unknown": "a unit that is not known"}
_NAMES = 4


def _crossing_line(crossings: tuple[RknnCrossing, ...]) -> str:
    sizes = [crossing.bytes for crossing in crossings if crossing.bytes is not None]
    unknown = f", the size of {len(crossings) - len(sizes)} unknown" if len(sizes) < len(crossings) else ""
    return f"{len(crossings)} tensors, {sum(sizes)} bytes between units{unknown}" if crossings else "none"


def _size(count: int | None) -> str:
    return "unknown" if count is None else file_size(count)


def _printable(text: str) -> str:
    # Names come from the file: they must not steer the terminal.
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
