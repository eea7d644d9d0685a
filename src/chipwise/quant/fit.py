"""Fit: a recipe as a target takes it, or what the target takes instead."""

from __future__ import annotations

from chipwise.errors import InputError
from chipwise.quant.recipe import Recipe, parse_recipe, with_grain
from chipwise.target.scheme_support import SchemeSupport
from chipwise.target.target import Target

# Sizes a recipe without a granularity may come to, the smallest error first.
_GROUPS = (32, 64, 128, 256, 16)


def fit_recipe(text: str, target: Target) -> Recipe:
    """The recipe of a name, with a granularity that the target takes where the name leaves it open.

    A target whose schemes nobody knows takes everything; so does the check.

    Args:
        text: A recipe's name, e.g. ``w8a16`` or ``w4a16_g64``.
        target: The target.

    Raises:
        InputError: There is no such recipe, or the target takes none of the kind; the message names what it takes.
    """
    recipe = parse_recipe(text)
    schemes = target.constraints.schemes
    if not schemes:
        return recipe
    same = [one for one in schemes if one.name == recipe.scheme]
    if not same:
        raise _refusal(recipe, target)
    if any(_takes(one, recipe) for one in same):
        return recipe
    if recipe.explicit:
        raise _refusal(recipe, target)
    for other in _grains(recipe):
        if any(_takes(one, other) for one in same):
            return other
    raise _refusal(recipe, target)


def taken(target: Target) -> str:
    """What a target takes, in words: ``w8a8 (tensor, channel), fp16``."""
    words = []
    for name in dict.fromkeys(one.name for one in target.constraints.schemes):
        same = [one for one in target.constraints.schemes if one.name == name]
        grains = [grain for grain in ("tensor", "channel") if any(grain in one.weights for one in same)]
        grains += [f"g{size}" for size in sorted({size for one in same for size in one.group_sizes})]
        words.append(f"{name} ({', '.join(grains)})" if grains else name)
    return ", ".join(words)


def _takes(one: SchemeSupport, recipe: Recipe) -> bool:
    """Whether a scheme has the recipe's granularity; one whose granularities are unknown has all but groups."""
    if recipe.group_size is not None:
        return one.takes_group(recipe.group_size)
    if not one.weights:
        return True
    return ("channel" if recipe.per_channel else "tensor") in one.weights


def _grains(recipe: Recipe) -> list[Recipe]:
    groups = [] if recipe.integer_activations else [with_grain(recipe, size) for size in _GROUPS]
    return [*groups, with_grain(recipe, None), with_grain(recipe, None, per_channel=False)]


def _refusal(recipe: Recipe, target: Target) -> InputError:
    return InputError(
        f"{target.name} does not take the recipe {recipe.name}", where="--recipe", remedy=f"it takes {taken(target)}"
    )
