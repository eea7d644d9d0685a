"""What a repair tried, which layers were to blame, and what was kept in 16 bits, for the report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerLoss:
    """A layer of a compiled graph against float, as the chip's toolkit compares them on one sample.

    Attributes:
        name: The toolkit's name of what it computes.
        op_type: The toolkit's name of the operator.
        dtype: What it computes in, e.g. ``INT8``; empty if the toolkit does not say.
        cosine: Cosine with float when all layers before it are quantized too.
        distance: Euclidean distance then.
        own_cosine: Cosine when this layer alone is quantized.
        own_distance: Euclidean distance then.
    """

    name: str
    op_type: str
    dtype: str
    cosine: float
    distance: float
    own_cosine: float
    own_distance: float


@dataclass(frozen=True)
class RepairTry:
    """One thing that was tried so that a recipe passes its gate.

    Attributes:
        recipe: The recipe.
        change: What was changed against the best before it, ``plain`` for the first.
        output_cosine: The worst output's cosine as one vector; None if the build failed.
        channel_cosine: The worst output's mean cosine of a channel; None if the build failed.
        passed: Whether the gate held.
        kept: Whether it is part of what was kept.
        size_bytes: Size of the compiled file, or of graph and weights.
        cycles: The compiler's estimate in all; None where there is none.
        float16: Values kept in float16.
        note: Why it failed, if it did.
    """

    recipe: str
    change: str
    output_cosine: float | None
    channel_cosine: float | None
    passed: bool
    kept: bool
    size_bytes: int | None = None
    cycles: int | None = None
    float16: int = 0
    note: str = ""


@dataclass(frozen=True)
class KeptInFloat16:
    """A value that a quantized build computes in float16, and what that costs.

    Attributes:
        name: The value.
        extra_bytes: Bytes more than in 8 bits: its own, and of the weights of its product.
        extra_cycles: Cycles more than in 8 bits, as the compiler estimates; None where it estimates neither.
    """

    name: str
    extra_bytes: int
    extra_cycles: int | None
