"""Inputs that let a decoder's graph read one whole prompt, for calibration, proofs and layer cosines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.model.decoder import names
from chipwise.model.decoder.rope import causal_bias
from chipwise.model.decoder.spec import DEFAULT_MASK_VALUE
from chipwise.rewrite.pass_ import Feed


def prompt_feed(
    graph: ir.Graph,
    prompt: Sequence[int],
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    window: int | None = None,
) -> Feed:
    """The inputs of a prefill graph, or of a fused decoder with an empty cache, that give logits of every token.

    A static graph's prompt is filled up by repeating it, so that every row it computes is of real text.

    Args:
        graph: The graph; it gets the inputs it has.
        prompt: Token ids.
        mask_value: The addend of masked scores, where the graph takes the mask as an input.
        window: Tokens a sliding layer looks back.
    """
    shapes = {str(value.name): value.shape for value in graph.inputs}
    tokens, rows = _size(shapes, names.INPUT_IDS, 1), _size(shapes, names.OUTPUT_ROWS, 0)
    n = tokens or len(prompt)
    ids = np.resize(np.asarray(prompt, np.int64), (1, n))
    feed: dict[str, npt.NDArray[Any]] = {
        names.INPUT_IDS: ids,
        names.OUTPUT_ROWS: np.arange(rows or len(prompt), dtype=np.int64),
        names.POSITIONS: np.arange(n, dtype=np.int64)[None],
        names.ATTENTION_BIAS: causal_bias(n, mask_value),
        names.ATTENTION_BIAS_LOCAL: causal_bias(n, mask_value, window),
        "seqlens_k": np.array([n - 1], np.int32),
        "total_sequence_length": np.array(n, np.int32),
    }
    for name in shapes:
        if name.startswith("past."):
            heads, channels = _size(shapes, name, 1) or 1, _size(shapes, name, 3) or 1
            feed[name] = np.zeros((1, heads, n, channels), np.float32)
    return {name: array for name, array in feed.items() if name in shapes}


def _size(shapes: dict[str, ir.Shape | None], name: str, axis: int) -> int | None:
    shape = shapes.get(name)
    dim = None if shape is None else shape[axis]
    return dim if isinstance(dim, int) else None
