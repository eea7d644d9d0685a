"""Recipe: which precision each kind of tensor gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from chipwise.check.recipe_name import parse_recipe_name, why_not_built
from chipwise.errors import InputError

Algorithm = Literal["mse", "gptq", "absmax"]


@dataclass(frozen=True)
class Recipe:
    """Precisions of weights and activations.

    Attributes:
        name: As the user writes it, e.g. ``w4a16_g32``.
        scheme: Bits of weights and activations as a target lists them: ``fp32``, ``fp16``, ``w8a8``, ``w8a16``,
            ``w4a16``.
        weight_bits: Bits of the linear layers' weights; 16 and 32 are floating point.
        group_size: Weights that share a scale along the input; None for a whole channel or tensor.
        per_channel: Whether each output channel has scales of its own.
        activation_bits: 8 for static per-tensor int8 activations; 16 leaves activations in floating point.
        head_bits: Bits of the output layer.
        embed_bits: Bits of the embedding, of which a token reads one row.
        symmetric: Whether the weights' zero_point is the middle of the range.
        algorithm: ``mse`` searches each group's scale for the least error; ``gptq`` makes up for the error in the
            columns that follow, by the inputs seen in calibration; ``absmax`` sets each scale by the largest magnitude,
            as a vendor's toolkit does by default.
        explicit: Whether the user named the granularity, so that no other may take its place.
    """

    name: str
    scheme: str
    weight_bits: int
    group_size: int | None
    per_channel: bool
    activation_bits: int
    head_bits: int
    embed_bits: int
    symmetric: bool = True
    algorithm: Algorithm = "mse"
    explicit: bool = False

    @property
    def quantizes(self) -> bool:
        """Whether anything is stored in fewer bits than the model has."""
        return self.weight_bits < 32

    @property
    def integer_activations(self) -> bool:
        """Whether activations are integers, so that their ranges must be calibrated."""
        return self.activation_bits == 8


@dataclass(frozen=True)
class _Kind:
    """What a scheme fixes beside what its name says."""

    head_bits: int
    embed_bits: int
    algorithm: Algorithm = "mse"


_KINDS: Mapping[str, _Kind] = {
    "fp32": _Kind(32, 32),
    "fp16": _Kind(16, 16),
    # A small model at 4 bits keeps its meaning only with small groups, each with a zero_point of its own.
    "w4a16": _Kind(4, 8, "gptq"),
    "w8a16": _Kind(8, 8),
    "w8a8": _Kind(8, 8),
}


def recipe_names() -> list[str]:
    """The names ``parse_recipe`` knows, without their granularities."""
    return list(_KINDS)


def parse_recipe(text: str) -> Recipe:
    """The recipe of a name such as ``fp32``, ``w8a8``, ``w8a8_tensor``, ``w4a16`` or ``w4a16_g64``.

    Raises:
        InputError: No such recipe, or one that is not built.
    """
    name = parse_recipe_name(text)
    refusal = why_not_built(name)
    if refusal is not None:
        raise InputError(refusal[0], remedy=refusal[1])
    kind = _KINDS[name.scheme]
    scheme = name.weight_scheme()
    return Recipe(
        name=name.text,
        scheme=name.scheme,
        weight_bits=name.weight_bits,
        group_size=scheme.group_size,
        per_channel=scheme.axis is not None or name.is_float,
        activation_bits=8 if name.integer_activations else 16,
        head_bits=kind.head_bits,
        embed_bits=kind.embed_bits,
        symmetric=scheme.symmetric,
        algorithm=kind.algorithm,
        explicit=name.granularity is not None,
    )


def with_grain(recipe: Recipe, group_size: int | None, *, per_channel: bool = True) -> Recipe:
    """A recipe whose scales serve groups of some size, or whole channels, or the whole tensor."""
    return replace(recipe, group_size=group_size, per_channel=per_channel)
