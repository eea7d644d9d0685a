"""Weights as a chip's runtime stores them, in graphs that run on a host."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import onnx_ir as ir

from chipwise.model.scheme import TensorScheme
from chipwise.quant.float16 import store_float16, store_table_float16
from chipwise.quant.int_weights import IntGrid, quantize_int_weights
from chipwise.quant.recipe import Recipe
from chipwise.quant.weight_only import quantize_weights
from chipwise.target.target import Target

# The kernel that computes in float32: a chip with 16-bit activations does not round them to int8 on the way.
_FLOAT_KERNEL = 1


def quantize_for_chip(
    model: ir.Model, recipe: Recipe, *, per_channel_ops: Collection[str] | None = None
) -> dict[str, TensorScheme]:
    """Store a portable graph's weights in a recipe's precision, in place.

    1. fp16: all of them rounded through float16.
    2. 8 or 4 bits a channel or tensor: integers with a DequantizeLinear in front of the product.
    3. 8 or 4 bits a group: MatMulNBits with float32 activations, a group's scale set by its largest magnitude: that
       is what rknn-toolkit2 does by default, and a search for a better scale would promise what it does not keep.

    The output layer is a product like the others, in the same bits. Embeddings are looked up in float16 by the CPU. A
    vendor's toolkit rounds the weights it is given, so no error is made up for here.

    Args:
        model: The graph.
        recipe: The recipe.
        per_channel_ops: Operators whose weights the chip takes with a scale a channel; None for all.

    Returns:
        The scheme of each weight by its name.

    Raises:
        InputError: The group that the user named does not divide a weight's input axis.
        RewriteError: No group does, or (when weights are read) one is beyond float16.
    """
    if recipe.weight_bits == 16:
        return store_float16(model)
    schemes = store_table_float16(model)
    if recipe.group_size is None:
        grid = IntGrid(recipe.weight_bits, recipe.per_channel)
        return schemes | quantize_int_weights(model, grid, per_channel_ops=per_channel_ops)
    rounded = replace(recipe, head_bits=recipe.weight_bits, symmetric=True, algorithm="absmax")
    return schemes | quantize_weights(model, rounded, accuracy_level=_FLOAT_KERNEL)


def per_channel_ops(target: Target) -> tuple[str, ...] | None:
    """Operators whose weights a target takes with a scale a channel; None where nobody says."""
    found = target.constraints.per_channel_ops
    return None if found is None else tuple(found.value)
