"""Types and shapes of a model's values, inferred without its weights."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from chipwise.check.weightless import weightless

_NOISY = ("onnx_ir", "onnxscript", "onnxslim")


def infer_types(model: ir.Model) -> None:
    """Fill in the types and shapes that can be inferred, in place; what cannot stays as it is."""
    try:
        inferred = onnx.shape_inference.infer_shapes(
            weightless(model).proto, check_type=False, strict_mode=False, data_prop=True
        )
    except onnx.shape_inference.InferenceError:
        return
    for mine, found in zip(model.graphs(), ir.from_proto(inferred).graphs(), strict=True):
        values = ir.convenience.create_value_mapping(found, include_subgraphs=False)
        for name, value in ir.convenience.create_value_mapping(mine, include_subgraphs=False).items():
            if name in values:
                _take(value, values[name])


def _take(value: ir.Value, found: ir.Value) -> None:
    if found.dtype is not None and value.dtype is None:
        value.type = found.type
    if found.shape is not None and not value.is_graph_input():
        value.shape = found.shape


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the progress lines of rewriting libraries off the terminal; their errors still come as exceptions."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
