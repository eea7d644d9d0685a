"""Quantization: recipes, calibration, and what they do to a graph."""

from __future__ import annotations

from chipwise.quant.affine import Affine
from chipwise.quant.calibration import ValueRange, calibrate, exceeding
from chipwise.quant.emulate import emulate_activations, stored_values
from chipwise.quant.fit import fit_recipe
from chipwise.quant.int_weights import IntGrid, quantize_int_weights
from chipwise.quant.recipe import Recipe, parse_recipe, recipe_names

__all__ = [
    "Affine",
    "IntGrid",
    "Recipe",
    "ValueRange",
    "calibrate",
    "emulate_activations",
    "exceeding",
    "fit_recipe",
    "parse_recipe",
    "quantize_int_weights",
    "recipe_names",
    "stored_values",
]
