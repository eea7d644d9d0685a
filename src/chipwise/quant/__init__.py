"""Quantization: recipes, calibration, and what they do to a graph."""

from __future__ import annotations

from chipwise.quant.recipe import Recipe, parse_recipe, recipe_names

__all__ = ["Recipe", "parse_recipe", "recipe_names"]
