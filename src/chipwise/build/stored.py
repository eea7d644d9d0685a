"""Stored weights: where each weight of a bundle lies, how it is stored, and what belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from chipwise.bundle import TensorEntry
from chipwise.files import write_atomic
from chipwise.model.scheme import TensorScheme
from chipwise.quant.group_sums import groups_without_rest

WEIGHTS = "weights"
"""Role of the file that holds the weights."""

_VALUES = (".packed", ".packed_rows", "_quantized", "")
_BESIDE = (".scales", ".zero_points", "_scale", "_zero_point")


@dataclass(frozen=True)
class StoredWeight:
    """One weight.

    Attributes:
        entry: How its values are stored, and where.
        values: How many values it has, without what the storage adds.
        ranges: The length of every part by its offset in the file, both in bytes: values, scales, zero_points.
    """

    entry: TensorEntry
    values: int
    ranges: Mapping[int, int]


def relocate(graph: Path, weights: str, schemes: Mapping[str, TensorScheme]) -> dict[str, StoredWeight]:
    """Let a graph name its weights file by the name the bundle gave it; returns where each weight lies in it.

    Args:
        graph: The ONNX file; it is written anew.
        weights: Stored name of the weights file.
        schemes: How each weight is stored. What is stored for NAME is called NAME, NAME.packed, NAME.packed_rows or
            NAME_quantized.

    Raises:
        OutputError: The disk does not take it.
    """
    proto = onnx.load(graph, load_external_data=False)
    places: dict[str, tuple[int, int]] = {}
    shapes: dict[str, list[int]] = {}
    for tensor in proto.graph.initializer:
        fields = {entry.key: entry for entry in tensor.external_data}
        if "location" not in fields:
            continue
        fields["location"].value = weights
        places[tensor.name] = (int(fields["offset"].value), int(fields["length"].value))
        shapes[tensor.name] = list(tensor.dims)
    write_atomic(graph, proto.SerializeToString())
    stored = {}
    for name, scheme in schemes.items():
        held = next((name + suffix for suffix in _VALUES if name + suffix in places), None)
        if held is not None:
            beside = [name + suffix for suffix in _BESIDE if name + suffix in places]
            entry = TensorEntry(scheme, WEIGHTS, *places[held])
            ranges = dict(places[part] for part in (held, *beside))
            stored[name] = StoredWeight(entry, _values(scheme, places[held][1], shapes[held]), ranges)
    return stored


def _values(scheme: TensorScheme, n_bytes: int, shape: list[int]) -> int:
    """Values of a weight; one ``[rows, groups, bytes]`` that keeps its grid has its rests as further columns."""
    values = n_bytes * 8 // scheme.bits
    if not (scheme.as_given and scheme.group_size):
        return values
    return values // shape[1] * groups_without_rest(shape[1], scheme.group_size)
