"""RoundedWeights: a decoder whose 8-bit products have weights on the chip's grid already."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from chipwise.model.decoder import names
from chipwise.model.weights import Float32Array, WeightInfo, WeightSource
from chipwise.quant.calibration import Progress, tapped
from chipwise.quant.channel_rounding import ChannelWeight, GroupWeight, round_channels, round_groups
from chipwise.quant.product_groups import ProductGroup
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Rounded = ChannelWeight | GroupWeight

# Hessians held at once.
_MAX_BYTES = 512 << 20


class RoundedWeights:
    """Weights of which some are rounded; a ``WeightSource`` of the same architecture.

    An output layer that is rounded is no longer the embedding, even if it was.

    Args:
        source: The weights as they are.
        rounded: Those that are rounded, by name.
    """

    def __init__(self, source: WeightSource, rounded: Mapping[str, Rounded]) -> None:
        self._source, self._rounded = source, rounded

    def names(self) -> Iterator[str]:
        """All canonical names."""
        yield from self._source.names()
        yield from (name for name in self._rounded if name not in self._source)

    def info(self, name: str) -> WeightInfo:
        """Shape and storage of a weight."""
        if name in self._source:
            return self._source.info(name)
        shape = self._rounded[name].values.shape
        return WeightInfo(name, shape, "F32", 4 * math.prod(shape))

    def load(self, name: str) -> Float32Array:
        """The weight in float32."""
        found = self._rounded.get(name)
        return self._source.load(name) if found is None else found.dense()

    def load_rows(self, name: str, start: int, stop: int) -> Float32Array:
        """Rows ``start`` to ``stop`` of a matrix."""
        return self.load(name)[start:stop] if name in self._rounded else self._source.load_rows(name, start, stop)

    def __contains__(self, name: object) -> bool:
        """Whether there is a weight of that name."""
        return name in self._source or name in self._rounded


def round_products(
    model: ir.Model,
    weights: WeightSource,
    groups: Sequence[ProductGroup],
    feeds: Sequence[Feed],
    *,
    group_size: int | None = None,
    threads: int,
    progress: Progress,
) -> dict[str, Rounded]:
    """Round the weights of groups of products by what they read on real inputs.

    An embedding that is the output layer too is rounded as ``lm_head.weight``: what is looked up stays as it is.
    Products whose width ``group_size`` does not divide are left out.

    Args:
        model: The decoder's graph in floating point. It is not changed.
        weights: Its weights ``[out, in]``, by the names that the groups have.
        groups: The groups.
        feeds: Real inputs, at least one.
        group_size: Columns that share a scale, for 4 bits; None for 8 bits a channel.
        threads: Threads of a run.
        progress: Told the groups done.

    Raises:
        RewriteError: The graph fails on an input.
    """
    rounded: dict[str, Rounded] = {}
    widths = {group.value: weights.info(group.weights[0]).shape[-1] for group in groups}
    groups = [group for group in groups if not (group_size and widths[group.value] % group_size)]
    done = 0
    for part in _parts(groups, widths):
        hessians = _gather(model, [group.value for group in part], widths, feeds, threads)
        for group in part:
            for name in group.weights:
                matrix, hessian = weights.load(name), hessians[group.value]
                rounded[names.LM_HEAD if name == names.EMBEDDING else name] = (
                    round_groups(matrix, hessian, group_size) if group_size else round_channels(matrix, hessian)
                )
            done += 1
            progress(done, len(groups))
    return rounded


def _parts(groups: Sequence[ProductGroup], widths: Mapping[str, int]) -> Iterator[list[ProductGroup]]:
    """The groups in parts whose Hessians fit the memory."""
    part: list[ProductGroup] = []
    used = 0
    for group in groups:
        size = 4 * widths[group.value] ** 2
        if part and used + size > _MAX_BYTES:
            yield part
            part, used = [], 0
        part.append(group)
        used += size
    if part:
        yield part


def _gather(
    model: ir.Model, values: Sequence[str], widths: Mapping[str, int], feeds: Sequence[Feed], threads: int
) -> dict[str, Float32Array]:
    runner = Runner(tapped(model, values), threads=threads, label="the decoder")
    known = set(runner.input_names)
    sums = {value: np.zeros((widths[value], widths[value]), np.float32) for value in values}
    for feed in feeds:
        found = runner.run({name: array for name, array in feed.items() if name in known})
        for value, array in found.items():
            x = array.reshape(-1, array.shape[-1])
            sums[value] += x.T @ x
    return sums
