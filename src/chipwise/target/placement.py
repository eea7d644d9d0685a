"""Placement: where a chip runs which operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.target.provenance import Provenance

Place = Literal["npu", "cpu", "unsupported"]


@dataclass(frozen=True)
class Placement:
    """A group of operators with one place and one source.

    Attributes:
        place: ``npu`` (the accelerator, whatever its kind), ``cpu`` (falls back), ``unsupported`` (the build fails).
        ops: ONNX operator types; those outside the standard set with their domain, ``com.microsoft.Name``.
            ``*`` stands for all that no other group names.
        provenance: Where that is said.
        note: Under which condition it holds.
    """

    place: Place
    ops: tuple[str, ...]
    provenance: Provenance
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse an empty group."""
        if not self.ops:
            raise ValueError("ops: is empty")
