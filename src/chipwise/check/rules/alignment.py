"""Rules about alignment."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.check.check_input import CheckInput
from chipwise.check.linears import Linear, linears
from chipwise.check.rule import Hit, rule
from chipwise.target.alignment import Alignment

_BITS = {"int4": 4, "int8": 8, "int16": 16, "fp16": 16, "bf16": 16, "tf32": 32, "fp32": 32}


@rule
def alignment(given: CheckInput) -> Iterator[Hit]:
    """A layer's rows do not fill the multiple that the accelerator reads.

    Why: Rows are padded at best; reports say that a wrong layout of packed 4-bit weights hangs the driver.

    Limit: `alignments` of the target: 32 bytes for packed int4 and 16 for activations by practitioners' reports,
    multiples of the matrix dimensions by the vendor's headers.

    Remedy: Pad the channels to the multiple, or keep this layer in another precision.
    """
    recipe = given.recipe
    weight_dtype, activation_dtype = _dtypes(given)
    for one in given.limits.alignments:
        if one.subject == "scale_channels" and (recipe is None or recipe.weight_bits != 4):
            continue
        wanted = weight_dtype if one.subject == "packed_weights" else activation_dtype
        if one.subject in ("matmul_k", "matmul_n"):
            wanted = weight_dtype
        if one.dtype is not None and one.dtype != wanted:
            continue
        if one.subject == "packed_weights" and recipe is None:
            continue
        for linear in linears(given):
            yield from _hits(one, linear, wanted)


def _dtypes(given: CheckInput) -> tuple[str, str]:
    """The types of weights and activations: fp16 where no recipe says otherwise."""
    recipe = given.recipe
    if recipe is None or recipe.is_float:
        return "fp16", "fp16"
    return f"int{recipe.weight_bits}", f"int{recipe.activation_bits}" if recipe.integer_activations else "fp16"


def _hits(one: Alignment, linear: Linear, dtype: str) -> Iterator[Hit]:
    """One hit if a layer breaks an alignment."""
    multiple = int(one.multiple)
    length = {"matmul_n": linear.n, "scale_channels": linear.n}.get(one.subject, linear.k)
    measured = length
    if one.multiple.unit == "B":
        bits = length * _BITS[dtype]
        measured = bits // 8
        if bits % (8 * multiple) == 0:
            return
    elif length % multiple == 0:
        return
    unit = "B" if one.multiple.unit == "B" else "channels"
    yield Hit(
        "warning",
        linear.name,
        f"{measured} {unit} ({length} in {dtype})" if unit == "B" else f"{length} channels",
        f"a multiple of {multiple} {unit}",
        f"{one.subject.replace('_', ' ')} of {linear.count} {'layer' if linear.count == 1 else 'layers'}",
    )
