"""RknnJson: the JSON at the end of a .rknn file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from chipwise.errors import ModelFormatError
from chipwise.model.rknn_tables import RknnTensor

# Real ones have a few hundred bytes a border tensor. Parsed JSON takes many times its text in memory.
MAX_JSON_BYTES = 1 << 20


@dataclass(frozen=True)
class RknnJson:
    """What the JSON says: chips, toolkit, source framework, and the borders without their types."""

    targets: tuple[str, ...]
    toolkit_version: str
    framework: str
    inputs: tuple[RknnTensor, ...]
    outputs: tuple[RknnTensor, ...]


def read_json(raw: bytes, where: str) -> RknnJson:
    """Read the JSON of a .rknn file.

    Raises:
        ModelFormatError: It is too long, no JSON, or lacks what every such file has.
    """
    if len(raw) > MAX_JSON_BYTES:
        raise _bad(f"has more than the {MAX_JSON_BYTES} bytes that it may have", where)
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise _bad(f"is none ({e})", where) from e
    try:
        return _fields(fields)
    except (TypeError, KeyError, AttributeError) as e:
        raise _bad(f"lacks a field that every .rknn file has, or has it in another form ({e})", where) from e


def _fields(fields: dict[str, Any]) -> RknnJson:
    targets, version, framework = fields["target_platform"], fields["version"], fields.get("ori_network_platform", "")
    tensors = {tensor["tensor_id"]: _tensor(tensor) for tensor in fields["norm_tensor"]}
    if not isinstance(targets, list) or not all(isinstance(text, str) for text in (*targets, version, framework)):
        raise TypeError("target_platform or version is no text")
    return RknnJson(
        targets=tuple(targets),
        toolkit_version=version,
        framework=framework,
        inputs=_side(fields, "input", tensors),
        outputs=_side(fields, "output", tensors),
    )


def _tensor(fields: dict[str, Any]) -> RknnTensor:
    name, shape = fields["url"], fields["size"]
    if not isinstance(name, str) or not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise TypeError("norm_tensor")
    return RknnTensor(name, tuple(shape), "unknown")


def _side(fields: dict[str, Any], side: str, tensors: dict[Any, RknnTensor]) -> tuple[RknnTensor, ...]:
    edges = [edge for edge in fields["graph"] if edge["left"] == side]
    return tuple(
        tensors[edge["right_tensor_id"]] for edge in sorted(edges, key=lambda edge: int(edge["left_tensor_id"]))
    )


def _bad(what: str, where: str) -> ModelFormatError:
    return ModelFormatError(f"the JSON at its end {what}", where=where, remedy="copy or build the file again")
