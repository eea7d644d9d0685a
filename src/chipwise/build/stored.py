"""Stored tensors: where each weight of a bundle lies, how it is stored, and what all of them weigh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from chipwise.bundle import TensorEntry
from chipwise.files import write_atomic
from chipwise.model.scheme import TensorScheme
from chipwise.report.report import SchemeSize

WEIGHTS = "weights"
"""Role of the file that holds the weights."""


def relocate(graph: Path, weights: str, schemes: Mapping[str, TensorScheme]) -> dict[str, TensorEntry]:
    """Let a graph name its weights file by the name the bundle gave it; returns where each weight lies in it.

    Args:
        graph: The ONNX file; it is written anew.
        weights: Stored name of the weights file.
        schemes: How each weight is stored. What is stored for NAME is called NAME or NAME.packed.

    Raises:
        OutputError: The disk does not take it.
    """
    proto = onnx.load(graph, load_external_data=False)
    places: dict[str, tuple[int, int]] = {}
    for tensor in proto.graph.initializer:
        fields = {entry.key: entry for entry in tensor.external_data}
        if "location" not in fields:
            continue
        fields["location"].value = weights
        places[tensor.name] = (int(fields["offset"].value), int(fields["length"].value))
    write_atomic(graph, proto.SerializeToString())
    entries = {}
    for name, scheme in schemes.items():
        place = next((places[n] for n in (f"{name}.packed", name) if n in places), None)
        if place is not None:
            entries[name] = TensorEntry(scheme, WEIGHTS, *place)
    return entries


def sizes(entries: Iterable[TensorEntry]) -> tuple[SchemeSize, ...]:
    """The tensors of each scheme, and their bytes in float32 and as stored."""
    groups: dict[str, list[TensorEntry]] = {}
    for entry in entries:
        groups.setdefault(_words(entry.scheme), []).append(entry)
    return tuple(
        SchemeSize(
            words,
            len(group),
            bytes_before=sum(_values(e) * 4 for e in group),
            bytes_after=sum(int(_values(e) * e.scheme.bits_per_value / 8) for e in group),
        )
        for words, group in sorted(groups.items())
    )


def _values(entry: TensorEntry) -> int:
    return (entry.bytes or 0) * 8 // entry.scheme.bits


def _words(scheme: TensorScheme) -> str:
    if scheme.scale_dtype is None:
        return scheme.dtype
    grain = f"group {scheme.group_size}" if scheme.group_size else "a tensor" if scheme.axis is None else "a channel"
    zero = "" if scheme.symmetric else ", with zero_point"
    return f"{scheme.dtype}, {grain}{zero}"
