"""Recipe: which precision each kind of tensor gets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from chipwise.errors import InputError
from chipwise.model.scheme import TensorScheme

_GRANULARITY = re.compile(r"^(w8a8|w8a16|w4a16)(?:_(channel|tensor|g(?:16|32|64|128|256)))?$")


@dataclass(frozen=True)
class Recipe:
    """Precisions of weights and activations.

    Attributes:
        name: As the user writes it, e.g. ``w4a16_g32``.
        weight_bits: Bits of the linear layers' weights; 32 leaves them alone.
        group_size: Weights that share a scale along the input; None for a whole channel or tensor.
        per_channel: Whether each output channel has scales of its own.
        activation_bits: 8 for static per-tensor int8 activations; 16 leaves activations in floating point.
        head_bits: Bits of the embedding and the output layer.
        symmetric: Whether the weights' zero_point is the middle of the range.
        algorithm: ``mse`` searches each group's scale for the least error; ``gptq`` makes up for the error in the
            columns that follow, by the inputs seen in calibration.
    """

    name: str
    weight_bits: int
    group_size: int | None
    per_channel: bool
    activation_bits: int
    head_bits: int
    symmetric: bool = True
    algorithm: Literal["mse", "gptq"] = "mse"

    @property
    def quantizes(self) -> bool:
        """Whether anything is stored in fewer bits than the model has."""
        return self.weight_bits < 32

    def weight_scheme(self, bits: int | None = None) -> TensorScheme:
        """How a linear layer's weight ``[out, in]`` is stored."""
        width = self.weight_bits if bits is None else bits
        if width == 32:
            return TensorScheme(32, "float32")
        return TensorScheme(
            bits=width,
            dtype="uint4" if width == 4 else "int8" if self.activation_bits == 8 else "uint8",
            group_size=self.group_size,
            axis=0 if self.per_channel else None,
            symmetric=self.symmetric,
            scale_dtype="float32",
        )


_FP32 = Recipe("fp32", 32, None, True, 16, 32)
_BASE = {
    # A small model at 4 bits keeps its meaning only with small groups, each with a zero_point of its own.
    "w4a16": Recipe("w4a16", 4, 32, True, 16, 8, symmetric=False, algorithm="gptq"),
    "w8a16": Recipe("w8a16", 8, 32, True, 16, 8),
    "w8a8": Recipe("w8a8", 8, None, True, 8, 8),
}


def recipe_names() -> list[str]:
    """The names ``parse_recipe`` knows, without their granularities."""
    return ["fp32", *_BASE]


def parse_recipe(text: str) -> Recipe:
    """The recipe of a name such as ``fp32``, ``w8a8``, ``w8a8_tensor``, ``w4a16`` or ``w4a16_g64``.

    Raises:
        InputError: No such recipe.
    """
    if text == "fp32":
        return _FP32
    match = _GRANULARITY.match(text)
    if match is None:
        raise InputError(
            f"unknown recipe '{text}'",
            remedy="use fp32, w8a8[_tensor|_channel], w8a16[_channel|_gN] or w4a16[_channel|_gN], N of 16..256",
        )
    base, granularity = _BASE[match[1]], match[2]
    if granularity is None:
        return base
    if granularity in ("channel", "tensor"):
        return replace(base, name=text, group_size=None, per_channel=granularity == "channel")
    if base.activation_bits == 8:
        raise InputError(f"recipe '{text}': static int8 takes one scale a channel or tensor", remedy="use w8a8_channel")
    return replace(base, name=text, group_size=int(granularity[1:]))
