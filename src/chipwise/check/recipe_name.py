"""RecipeName: what the name of a quantization recipe says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chipwise.errors import InputError
from chipwise.model.scheme import StorageDtype, TensorScheme

_NAME = re.compile(
    r"(?P<scheme>fp32|fp16|bf16|w(?P<w>4|8|16)a(?P<a>4|8|16)i?)(?:_dfp)?(?:_(?P<how>channel|tensor|g(?P<g>\d+)))?"
)
# What w4a16 and w8a16 without a suffix come to here; a whole channel would need less memory.
_SILENT_GROUP = 32
_INTEGERS: dict[int, StorageDtype] = {4: "uint4", 8: "int8", 16: "int16"}


@dataclass(frozen=True)
class RecipeName:
    """The parts of a name such as ``w4a16_g32``.

    Attributes:
        text: The whole name.
        scheme: Weight and activation bits: ``w4a16``.
        weight_bits: Bits of a weight.
        activation_bits: Bits of an activation.
        granularity: ``channel``, ``tensor`` or ``group``; None if the name leaves it open.
        group_size: Weights that share a scale, None without groups.
    """

    text: str
    scheme: str
    weight_bits: int
    activation_bits: int
    granularity: str | None
    group_size: int | None

    @property
    def is_float(self) -> bool:
        """Whether weights stay in floating point."""
        return self.scheme.startswith(("fp", "bf"))

    @property
    def integer_activations(self) -> bool:
        """Whether activations are integers: 8 bits or fewer, or 16 with an ``i``."""
        return not self.is_float and (self.activation_bits <= 8 or self.scheme.endswith("i"))

    def weight_scheme(self) -> TensorScheme:
        """How a linear layer's weights are stored: float32 scales, groups of 32 where the name is silent."""
        if self.is_float:
            return TensorScheme(self.weight_bits, "float32" if self.weight_bits == 32 else "float16")
        return TensorScheme(
            self.weight_bits,
            _INTEGERS[self.weight_bits],
            group_size=_SILENT_GROUP if self.granularity is None and not self.integer_activations else self.group_size,
            axis=None if self.granularity == "tensor" else 0,
            symmetric=self.weight_bits != 4,
            scale_dtype="float32",
        )


def parse_recipe_name(text: str) -> RecipeName:
    """Read a recipe's name.

    Raises:
        InputError: The name is none.
    """
    found = _NAME.fullmatch(text.strip().lower())
    if found is None:
        raise InputError(
            f"there is no recipe {text!r}",
            remedy="name it like fp16, w8a8, w8a8_channel, w4a16 or w4a16_g64",
        )
    scheme = found["scheme"]
    bits = int(found["w"]) if found["w"] else int(scheme[2:])
    how = found["how"]
    return RecipeName(
        text=text.strip().lower(),
        scheme=scheme,
        weight_bits=bits,
        activation_bits=int(found["a"]) if found["a"] else bits,
        granularity=None if how is None else "group" if found["g"] else how,
        group_size=int(found["g"]) if found["g"] else None,
    )


BUILT = ("fp32", "fp16", "w4a16", "w8a16", "w8a8")
"""The schemes that chipwise builds; targets know more."""


def why_not_built(name: RecipeName) -> tuple[str, str] | None:
    """What keeps chipwise from building a recipe, and what to take in its place; None if it is built."""
    if name.scheme not in BUILT:
        return f"recipe {name.text!r} is not built", f"use {', '.join(BUILT)}"
    if name.is_float and name.granularity is not None:
        return f"recipe {name.text!r}: {name.scheme} has no scales", f"use {name.scheme}"
    if name.group_size is None:
        return None
    if name.integer_activations:
        return f"recipe {name.text!r}: static int8 takes one scale a channel or tensor", "use w8a8_channel"
    size = name.group_size
    if size < 16 or size & (size - 1) or size > 256:
        return f"recipe {name.text!r}: no group of {size}", "use a group of 16, 32, 64, 128 or 256"
    return None
