"""The rules, one subject a file."""

from __future__ import annotations

from chipwise.check.rule import Rule
from chipwise.check.rules.alignment import alignment
from chipwise.check.rules.context import context_of_model, context_of_target
from chipwise.check.rules.control_flow import control_flow
from chipwise.check.rules.external_data import external_data
from chipwise.check.rules.masks import mask_range
from chipwise.check.rules.memory import memory, memory_unknown
from chipwise.check.rules.normalization import epsilon
from chipwise.check.rules.operators import (
    custom_operators,
    matmul_length,
    placement,
    resize_mode,
    unknown_placement,
    unsupported_operators,
    wide_output,
)
from chipwise.check.rules.opset import opset
from chipwise.check.rules.schemes import recipe_not_built, scheme, scheme_channels
from chipwise.check.rules.shapes import dim_limits, softmax_area, static_shapes, zero_sizes
from chipwise.check.rules.types import complex_numbers, input_types, int64_arithmetic, stored_floats
from chipwise.check.rules.values import float16_range, weights_not_finite

RULES: tuple[Rule, ...] = (
    scheme,
    scheme_channels,
    recipe_not_built,
    memory,
    memory_unknown,
    context_of_model,
    context_of_target,
    opset,
    static_shapes,
    zero_sizes,
    control_flow,
    custom_operators,
    external_data,
    unsupported_operators,
    resize_mode,
    placement,
    unknown_placement,
    wide_output,
    matmul_length,
    alignment,
    dim_limits,
    softmax_area,
    input_types,
    int64_arithmetic,
    stored_floats,
    complex_numbers,
    weights_not_finite,
    float16_range,
    mask_range,
    epsilon,
)
"""Every rule, in the order of its page."""
