"""Pooling: how the hidden states of a text's tokens become one sentence embedding."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from chipwise.errors import UnknownArchitectureError
from chipwise.model.config import EncoderConfig
from chipwise.model.graph_pen import GraphPen

PoolingKind = Literal["mean", "cls"]

_FLAGS: dict[str, PoolingKind] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# Below sentence-transformers' own bounds: a text of padding alone gives zeros, not NaN.
_SMALLEST_COUNT, _SMALLEST_NORM = 1e-9, 1e-12


def pooling_kind(config: EncoderConfig) -> PoolingKind:
    """What sentence-transformers' settings ask for; ``mean`` where there are none.

    Raises:
        UnknownArchitectureError: They ask for something else, or for several at once.
    """
    settings = config.extra.get("pooling")
    if not settings:
        return "mean"
    named = settings.get("pooling_mode")
    asked = (
        [named] if named else [name for name, on in settings.items() if name.startswith("pooling_mode_") and on is True]
    )
    kinds = [_FLAGS.get(str(name), str(name)) for name in asked]
    if kinds not in (["mean"], ["cls"]):
        raise UnknownArchitectureError(
            f"pooling {', '.join(map(str, asked)) or 'of no kind'} is not supported; supported are mean and cls",
            where="1_Pooling/config.json",
        )
    return "cls" if kinds == ["cls"] else "mean"


def pool(pen: GraphPen, hidden: ir.Value, mask: ir.Value, config: EncoderConfig) -> ir.Value:
    """The sentence embedding ``[b, hidden_size]``.

    Args:
        pen: The graph.
        hidden: The last hidden state ``[b, s, hidden_size]``.
        mask: 1 for a token, 0 for padding, float32 ``[b, s]``.
        config: The model.

    Raises:
        UnknownArchitectureError: The model pools in a way that is not supported.
    """
    pooled = _mean(pen, hidden, mask) if pooling_kind(config) == "mean" else _first(pen, hidden)
    return _normalized(pen, pooled) if config.extra.get("normalize") else pooled


def _mean(pen: GraphPen, hidden: ir.Value, mask: ir.Value) -> ir.Value:
    """The mean over the tokens that are no padding."""
    axis = pen.constant("axis_1", np.array([1]))
    weights = pen.op("Unsqueeze", [mask, pen.constant("axis_2", np.array([2]))])
    total = pen.op("ReduceSum", [pen.op("Mul", [hidden, weights]), axis], {"keepdims": 0})
    count = pen.op("ReduceSum", [mask, axis], {"keepdims": 1})
    return pen.op("Div", [total, pen.op("Max", [count, pen.constant("smallest_count", np.float32(_SMALLEST_COUNT))])])


def _first(pen: GraphPen, hidden: ir.Value) -> ir.Value:
    return pen.op("Gather", [hidden, pen.constant("first_token", np.array(0))], {"axis": 1})


def _normalized(pen: GraphPen, x: ir.Value) -> ir.Value:
    norm = pen.op("ReduceL2", [x], {"axes": [-1], "keepdims": 1})
    return pen.op("Div", [x, pen.op("Max", [norm, pen.constant("smallest_norm", np.float32(_SMALLEST_NORM))])])
