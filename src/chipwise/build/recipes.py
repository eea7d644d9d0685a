"""The recipes a build tries."""

from __future__ import annotations

from collections.abc import Sequence

from chipwise.build.options import AUTO, BuildOptions
from chipwise.errors import InputError
from chipwise.quant.fit import fit_recipe, taken
from chipwise.quant.recipe import Recipe
from chipwise.target import Target


def recipes_to_try(options: BuildOptions, target: Target, auto: Sequence[str]) -> tuple[Recipe, ...]:
    """The one the user named, or those of ``auto`` that the target takes, in order.

    Raises:
        InputError: There is no such recipe, or the target takes none of them; the message names what it takes.
    """
    if options.recipe != AUTO:
        return (fit_recipe(options.recipe, target),)
    known = {one.name for one in target.constraints.schemes}
    found = tuple(fit_recipe(name, target) for name in auto if name in known or not known)
    if not found:
        raise InputError(
            f"{target.name} takes none of the recipes that are built ({', '.join(auto)})", where="--recipe",
            remedy=f"it takes {taken(target)}",
        )  # fmt: skip
    return found
