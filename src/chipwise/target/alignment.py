"""Alignment: a multiple that sizes or addresses must be of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.target.compute_unit import Dtype
from chipwise.target.quantity import Quantity

Subject = Literal["packed_weights", "activations", "matmul_k", "matmul_n", "scale_channels"]


@dataclass(frozen=True)
class Alignment:
    """One alignment rule.

    Attributes:
        subject: What must be aligned: the bytes of ``packed_weights`` or ``activations`` in memory, the inner
            (``matmul_k``) or output (``matmul_n``) dimension of a matrix product, or the number of
            ``scale_channels``.
        multiple: The multiple, in bytes or as a count of elements.
        dtype: The data type it holds for; None for all.
    """

    subject: Subject
    multiple: Quantity
    dtype: Dtype | None = None

    def __post_init__(self) -> None:
        """Bytes or elements, nothing else."""
        if self.multiple.unit not in ("B", "1"):
            raise ValueError(f"multiple: expected bytes or a plain number, got {self.multiple.unit}")
