"""SchemeSupport: a quantization scheme a chip's runtime takes, and at which granularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Quantity

Granularity = Literal["tensor", "channel", "group"]
SchemeName = Literal["fp32", "fp16", "bf16", "w8a8", "w8a16", "w8a16i", "w4a16", "w16a16i"]


@dataclass(frozen=True)
class SchemeSupport:
    """One scheme of one engine.

    Attributes:
        name: Weight and activation bits, e.g. ``w8a8``. ``a16`` are floating-point activations, ``a16i`` integers.
        engine: The runtime that takes it.
        provenance: Where that is said.
        weights: Granularities of the weights' scales; empty for floating point or when unknown.
        group_sizes: Weights that share a scale, where ``weights`` has ``group``.
        algorithms: Calibration algorithms the vendor's toolkit offers for it.
        k_multiple: What the inner dimension of every product, or a convolution's input channels, must be a multiple of.
        note: What limits it.
    """

    name: SchemeName
    engine: str
    provenance: Provenance
    weights: tuple[Granularity, ...] = ()
    group_sizes: tuple[int, ...] = ()
    algorithms: tuple[str, ...] = ()
    k_multiple: Quantity | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Groups need sizes, sizes need groups."""
        if ("group" in self.weights) != bool(self.group_sizes):
            raise ValueError("group_sizes: belong to weights = [..., 'group'], and to nothing else")
        if any(size < 1 for size in self.group_sizes):
            raise ValueError(f"group_sizes: expected numbers above 0, got {list(self.group_sizes)}")

    def takes_group(self, group_size: int | None) -> bool:
        """Whether weights may share scales in groups of this size (None: one scale a channel or tensor)."""
        return group_size in self.group_sizes if group_size is not None else self.weights != ("group",)
