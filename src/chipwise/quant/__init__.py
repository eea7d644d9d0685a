"""Quantization: recipes, calibration, and what they do to a graph."""

from __future__ import annotations

from chipwise.quant.fit import fit_recipe
from chipwise.quant.recipe import Recipe, parse_recipe, recipe_names

__all__ = ["Recipe", "fit_recipe", "parse_recipe", "recipe_names"]
