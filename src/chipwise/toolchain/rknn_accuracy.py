"""Accuracy analysis: rknn-toolkit2's own comparison of each of a compiled graph's layers with float, as typed rows.

The toolkit sees tensors that exist nowhere else: what it fused, and what it stores of it. Its ``accuracy_analysis``
takes a second beside a build that took three, so each build that is judged carries it. Format of version 2.5.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = r"(-?\d{1,12}\.\d{1,9}|-?nan|-?inf)"
_ROW = re.compile(rf"^\[(\S{{1,80}})\] (\S{{1,400}})\s+{_NUMBER} \| {_NUMBER}\s+{_NUMBER} \| {_NUMBER}(?:\s.*)?$")


@dataclass(frozen=True)
class RknnLayerError:
    """One row: how far a layer's output lies from float, on one sample.

    Attributes:
        tensor: The toolkit's name of the output.
        op_type: Its name of the operator.
        cosine: Cosine with float when all layers before it are quantized too; NaN if not finite.
        distance: Euclidean distance then.
        own_cosine: Cosine when this layer alone is quantized: its inputs are those of float, in its types.
        own_distance: Euclidean distance then.
    """

    tensor: str
    op_type: str
    cosine: float
    distance: float
    own_cosine: float
    own_distance: float

    @property
    def loss(self) -> float:
        """Share of the output's energy that this layer alone loses, from its cosine; infinite if that is no number."""
        if not math.isfinite(self.own_cosine) or self.own_cosine <= 0:
            return math.inf
        return 1 / self.own_cosine**2 - 1


def read_accuracy(text: str) -> tuple[RknnLayerError, ...]:
    """Read ``error_analysis.txt``; lines that are no rows are passed over."""
    found = []
    for line in text.splitlines():
        match = _ROW.match(line.strip())
        if match is not None:
            found.append(RknnLayerError(match[2], match[1], *(float(match[index]) for index in range(3, 7))))
    return tuple(found)


def value_of(tensor: str, values: Iterable[str]) -> str | None:
    """The value of the ONNX file that a tensor of the toolkit carries the name of; None if it is of its own making.

    The toolkit appends letters behind ``-``, ``_`` or ``#``: ``layers.0.mlp.product-rs``, ``layers.0.mlp.down#2``.
    """
    fits = [name for name in values if tensor == name or (tensor.startswith(name) and tensor[len(name)] in "-_#")]
    return max(fits, key=len, default=None)
