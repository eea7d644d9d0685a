"""Rules about quantization schemes."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.check.check_input import CheckInput
from chipwise.check.linears import Linear, linears
from chipwise.check.recipe_name import BUILT, RecipeName, why_not_built
from chipwise.check.rule import Hit, rule
from chipwise.target.scheme_support import SchemeSupport


@rule
def scheme(given: CheckInput) -> Iterator[Hit]:
    """The target's runtime does not take the recipe.

    Why: The toolchain refuses it (rknn-toolkit2: "The quantized_dtype = 'w4a16' not support in 'rk3588'!"), or stores
    the weights so and computes as before.

    Limit: `schemes` of the target, from its toolchains.

    Remedy: Take one of the schemes listed, or a chip that has the one wanted.
    """
    recipe = given.recipe
    taken = given.limits.schemes
    if recipe is None or not taken:
        return
    names = sorted({one.name for one in taken})
    same = [one for one in taken if one.name == recipe.scheme]
    if not same:
        yield Hit("error", given.target.name, recipe.text, ", ".join(names), _claim(given, recipe))
    elif not any(_takes(one, recipe) for one in same):
        yield Hit("error", given.target.name, recipe.text, "; ".join(_text(one) for one in same), "of this granularity")


@rule
def scheme_channels(given: CheckInput) -> Iterator[Hit]:
    """In this recipe the toolchain breaks on a layer whose input channels are not a multiple it needs.

    Why: rknn-toolkit2 for rk3562 in w8a16 writes behind a buffer and ends with "buffer overflow!!!" or a crash, or goes
    on by luck.

    Limit: `k_multiple` of the target's scheme, measured with its toolchain.

    Remedy: Take another recipe (w8a8, fp16), or pad the layer's input channels with zeros to the multiple.
    """
    recipe = given.recipe
    if recipe is None:
        return
    multiples = [int(one.k_multiple) for one in given.limits.schemes if one.name == recipe.scheme and one.k_multiple]
    for multiple in multiples[:1]:
        broken = [linear for linear in linears(given) if not _grouped(linear) and _inputs(linear) % multiple]
        if broken:
            sizes = ", ".join(str(size) for size in sorted({_inputs(linear) for linear in broken})[:6])
            where = ", ".join(linear.name for linear in broken[:3]) + (", ..." if len(broken) > 3 else "")
            yield Hit("error", where, f"{sizes} input channels", f"a multiple of {multiple}", recipe.text)


def _inputs(linear: Linear) -> int:
    return linear.k if linear.channels is None else linear.channels


def _grouped(linear: Linear) -> bool:
    """Whether a convolution has groups: the compiler makes another layer of it."""
    return linear.channels is not None and linear.k % linear.channels != 0


@rule
def recipe_not_built(given: CheckInput) -> Iterator[Hit]:
    """`chipwise build` does not make the recipe, whatever the target takes.

    Why: Runtimes take schemes that are not written yet, e.g. 16-bit integer activations or scales a group in static
    int8; better known before the build than from it.

    Limit: The recipes of docs/quantization.md.

    Remedy: Take the recipe named in the message.
    """
    refusal = None if given.recipe is None else why_not_built(given.recipe)
    if given.recipe is not None and refusal is not None:
        yield Hit("error", given.target.name, given.recipe.text, ", ".join(BUILT), "; ".join(refusal))


def _takes(one: SchemeSupport, recipe: RecipeName) -> bool:
    if recipe.granularity is None or not one.weights:
        return True
    if recipe.granularity == "group":
        return one.takes_group(recipe.group_size)
    return recipe.granularity in one.weights


def _text(one: SchemeSupport) -> str:
    grains = [g for g in one.weights if g != "group"] + [f"g{size}" for size in one.group_sizes]
    return f"{one.name} ({one.engine}): {', '.join(grains)}"


def _claim(given: CheckInput, recipe: RecipeName) -> str:
    """What the catalogue knows about people who were told otherwise."""
    for claim in given.target.claims_about("scheme"):
        if recipe.scheme in claim.claim.lower():
            return claim.truth.rstrip(".")
    return f"{recipe.scheme} on {given.target.name}"
