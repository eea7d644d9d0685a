"""TensorScheme: how one tensor's values are stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

StorageDtype = Literal[
    "float32", "float16", "bfloat16", "int16", "int8", "uint8", "int6", "uint5", "int4", "uint4", "int3", "uint2"
]


@dataclass(frozen=True)
class TensorScheme:
    """The storage of a tensor, enough to compute its values back.

    A stored value q stands for ``(q - zero_point) * scale``. One scale serves the whole tensor
    (``axis`` None), one slice along ``axis``, or ``group_size`` neighbours along the other axis.

    Attributes:
        bits: Bits a value.
        dtype: Type of the stored values.
        group_size: Values that share one scale along the input axis; None for a whole channel or tensor.
        axis: Axis that has scales of its own (the output channel); None for one scale a tensor.
        symmetric: Whether every zero_point is the middle of the range.
        scale_dtype: Type of the scales; None for a tensor stored in floating point.
        as_given: Whether the values are those of the model's file, which had this precision before.
    """

    bits: int
    dtype: StorageDtype
    group_size: int | None = None
    axis: int | None = None
    symmetric: bool = True
    scale_dtype: Literal["float32", "float16"] | None = None
    as_given: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as a manifest holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TensorScheme:
        """The scheme a manifest holds."""
        return cls(**fields)

    @property
    def bits_per_value(self) -> float:
        """Bits a value with its share of scale and zero_point (float32 scale, ``bits`` for a zero_point)."""
        if self.group_size is None or self.scale_dtype is None:
            return float(self.bits)
        scale_bits = 32 if self.scale_dtype == "float32" else 16
        zero_bits = 0 if self.symmetric else self.bits
        return self.bits + (scale_bits + zero_bits) / self.group_size


FLOAT32 = TensorScheme(32, "float32")
FLOAT16 = TensorScheme(16, "float16")
