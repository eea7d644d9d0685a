"""Feed-forward equalization: a gated feed-forward part whose few large channels are made smaller; an equal model.

What ``down_proj`` reads is a product, ``activation(gate) * up``, and some of its channels are tens of times larger than
the rest. Dividing a row of ``up_proj`` by a factor and multiplying the column of ``down_proj`` by it changes nothing
but the size of that channel in between (the idea of SmoothQuant, Xiao et al., arXiv 2211.10438, one product later).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.model.weights import Float32Array, WeightInfo, WeightSource
from chipwise.quant.calibration import tapped
from chipwise.quant.product_groups import product_groups
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Factors = Mapping[str, Float32Array]
"""The factor of each channel ``[ffn]`` by the name of the ``down_proj`` that reads it."""

_UP, _DOWN = "mlp.up_proj.weight", "mlp.down_proj.weight"
# Half of the way, so that up_proj's outputs and down_proj's columns do not take over what the product loses.
_POWER = 0.5


def feed_forward_factors(model: ir.Model, feeds: Collection[Feed], *, threads: int) -> dict[str, Float32Array]:
    """Factors that halve, in orders of magnitude, how far a channel stands above the median one.

    Args:
        model: A decoder's graph in floating point. It is not changed.
        feeds: Real inputs, at least one.
        threads: Threads of a run.

    Raises:
        RewriteError: The graph fails on an input.
    """
    read = {
        weight: group.value for group in product_groups(model) for weight in group.weights if weight.endswith(_DOWN)
    }
    runner = Runner(tapped(model, list(read.values())), threads=threads, label="the decoder")
    peaks: dict[str, npt.NDArray[np.float32]] = {}
    for feed in feeds:
        found = runner.run({name: array for name, array in feed.items() if name in runner.input_names})
        for name, array in found.items():
            seen = np.abs(array).reshape(-1, array.shape[-1]).max(0)
            peaks[name] = np.maximum(peaks.get(name, np.zeros_like(seen)), seen)
    return {weight: _factors(peaks[value]) for weight, value in read.items()}


class EqualizedWeights:
    """The weights of a decoder after equalization; a ``WeightSource`` of the same architecture.

    Args:
        source: The weights as they are.
        factors: The factors.
    """

    def __init__(self, source: WeightSource, factors: Factors) -> None:
        self._source, self._factors = source, factors

    def names(self) -> Iterator[str]:
        """All canonical names."""
        return self._source.names()

    def info(self, name: str) -> WeightInfo:
        """Shape and storage of a weight."""
        return self._source.info(name)

    def load(self, name: str) -> Float32Array:
        """The weight in float32."""
        given = self._source.load(name)
        factors = self._factors.get(name.replace(_UP, _DOWN))
        if factors is None or not name.endswith((_UP, _DOWN)):
            return given
        return given / factors[:, None] if name.endswith(_UP) else given * factors

    def load_rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` of a matrix."""
        if name.endswith((_UP, _DOWN)):
            return self.load(name)[start:stop]
        return self._source.load_rows(name, start, stop)

    def __contains__(self, name: object) -> bool:
        """Whether there is a weight of that name."""
        return name in self._source


def _factors(peaks: npt.NDArray[np.float32]) -> Float32Array:
    middle = float(np.median(peaks))
    if middle <= 0:
        return np.ones_like(peaks)
    grown: Float32Array = np.maximum(peaks / middle, 1.0).astype(np.float32) ** np.float32(_POWER)
    return grown
