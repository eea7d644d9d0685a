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
    weight_dtype, activation_dtype = _dtypes(given)
    for one in given.limits.alignments:
        dtype = activation_dtype if one.subject == "activations" else weight_dtype
        if (one.dtype is not None and one.dtype != dtype) or not _concerns(given, one):
            continue
        broken = [linear for linear in linears(given) if _measure(one, linear, dtype) % int(one.multiple)]
        if broken:
            yield _hit(one, broken, dtype)


def _dtypes(given: CheckInput) -> tuple[str, str]:
    """The types of weights and activations: fp16 where no recipe says otherwise."""
    recipe = given.recipe
    if recipe is None or recipe.is_float:
        return "fp16", "fp16"
    return f"int{recipe.weight_bits}", f"int{recipe.activation_bits}" if recipe.integer_activations else "fp16"


def _concerns(given: CheckInput, one: Alignment) -> bool:
    """Packed weights and their scales are there in 4 bits only."""
    packed = one.subject in ("packed_weights", "scale_channels")
    return not packed or (given.recipe is not None and given.recipe.weight_bits == 4)


def _measure(one: Alignment, linear: Linear, dtype: str) -> int:
    """What must be a multiple: channels, or the bytes of a row. What a rule does not speak of measures 0."""
    convolution = linear.channels is not None
    if one.subject in ("matmul_k", "matmul_n") and convolution:
        return 0
    if one.subject in ("matmul_n", "scale_channels"):
        return linear.n
    length = linear.channels if one.subject == "activations" and linear.channels is not None else linear.k
    # Half a byte over counts as one.
    return -(-length * _BITS[dtype] // 8) if one.multiple.unit == "B" else length


def _hit(one: Alignment, broken: list[Linear], dtype: str) -> Hit:
    unit = "B" if one.multiple.unit == "B" else "channels"
    sizes = sorted({_measure(one, linear, dtype) for linear in broken})
    listed = ", ".join(f"{size}" for size in sizes[:6]) + (", ..." if len(sizes) > 6 else "")
    count = sum(linear.count for linear in broken)
    return Hit(
        "info" if one.subject in ("matmul_k", "matmul_n") else "warning",
        ", ".join(linear.name for linear in broken[:3]) + (", ..." if len(broken) > 3 else ""),
        f"{listed} {unit} in {dtype}",
        f"a multiple of {int(one.multiple)} {unit}",
        f"{one.subject.replace('_', ' ')} of {count} {'layer' if count == 1 else 'layers'}",
    )
