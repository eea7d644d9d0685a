"""Equalization: the factors by which a value's channels shrink so that one 8-bit scale serves them all."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.errors import InputError
from chipwise.rewrite.channel_sites import ChannelSite, channel_sites
from chipwise.rewrite.channel_trace import Axes, Edit
from chipwise.rewrite.edit import Patch
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Vector = npt.NDArray[np.float64]
Factors = Mapping[str, Vector]

# How much of the unevenness goes from the value to what reads it: 1 makes the value's channels even, 0 the weights'.
_ALPHAS = (0.25, 0.5, 0.75, 1.0)
# A change that saves less than a fifth of the expected error is not worth other constants.
_WORTH = 0.8
_STEPS = 255
_LARGEST = 1e4


@dataclass(frozen=True)
class Channels:
    """What was seen of each channel of a value, all ``[channels]``.

    Attributes:
        low: The smallest number, at most 0.
        high: The largest, at least 0.
        square: The mean square.
    """

    low: Vector
    high: Vector
    square: Vector

    def step(self, factors: Vector) -> float:
        """The step of the 8-bit scale that covers all channels, each times a factor."""
        return float((self.high * factors).max() - (self.low * factors).min()) / _STEPS


def equalize(model: ir.Model, feeds: Collection[Feed], *, threads: int = 2) -> dict[str, Vector]:
    """Choose factors for the values of a graph whose channels may be scaled.

    For each value ``s = a ** alpha / w ** (1 - alpha)``, with the sizes ``a`` of its channels and ``w`` of the weights
    that read them (arXiv 2211.10438, equation 4); of several alphas, and none, the one whose expected error
    of the product is least (``expected_error``).

    Args:
        model: The graph in floating point, shapes known. It is not changed.
        feeds: Real inputs.
        threads: Threads of a run.

    Returns:
        Factors ``[channels]`` by the value's name, for ``rewrite.passes.equalized_channels``; only where they pay.

    Raises:
        InputError: There are no samples, or one does not fit the graph.
        RewriteError: The graph fails.
    """
    if not len(feeds):
        raise InputError("no calibration samples", remedy="give --samples with at least one entry")
    sites = channel_sites(model.graph)
    seen = _channels(model, sites, feeds, threads)
    found = {}
    for site in sites:
        factors = _best(seen[site.name], _reads(site, seen))
        if factors is not None:
            found[site.name] = factors
    return found


def expected_error(value: Channels, reads: Sequence[Vector] | Channels, factors: Vector) -> float:
    """The squared error that 8 bits leave in what is computed from a value, up to a constant.

    Rounding to steps of ``d`` costs ``d ** 2 / 12`` a number. What the value loses is weighed by what reads it; what
    weights lose, a scale an output column, by the value's mean squares.

    Args:
        value: The value's channels, before the factors.
        reads: Weights that read it, each ``[channels, outputs]``; or the channels of the other operand.
        factors: The value is divided by them, what reads it is multiplied.
    """
    step = value.step(1 / factors)
    if isinstance(reads, Channels):
        other = reads.step(factors)
        return float(step**2 * (factors**2 * reads.square).sum() + other**2 * (value.square / factors**2).sum()) / 12
    total = 0.0
    power = (value.square / factors**2).sum()
    for weight in reads:
        scaled = weight * factors[:, None]
        columns = 2 * np.abs(scaled).max(axis=0) / _STEPS
        total += step**2 * (scaled**2).sum() + power * (columns**2).sum()
    return float(total) / 12


def _best(value: Channels, reads: Sequence[Vector] | Channels) -> Vector | None:
    """The factors of least error; None if none are worth it.

    The size of a channel is its root mean square. Its largest number would make every channel reach the end of the
    scale on the calibrated samples, and clip others: cosine 0.985 of a gated product in Rockchip's simulator.
    """
    ones = np.ones_like(value.low)
    if isinstance(reads, Channels):
        weights = np.sqrt(reads.square)
    else:
        weights = np.max([np.abs(weight).max(axis=1) for weight in reads], axis=0)
    # A channel that is always 0, or that nothing reads, has no say.
    sizes = np.sqrt(value.square)
    alive = (sizes > 0) & (weights > 0) & np.isfinite(sizes) & np.isfinite(weights)
    if not alive.any():
        return None
    best, chosen = expected_error(value, reads, ones) * _WORTH, None
    for alpha in _ALPHAS:
        factors = ones.copy()
        factors[alive] = sizes[alive] ** alpha / weights[alive] ** (1 - alpha)
        factors /= math.exp(np.log(factors[alive]).mean())
        factors = np.where(alive, np.clip(factors, 1 / _LARGEST, _LARGEST), 1.0)
        error = expected_error(value, reads, factors)
        if error < best:
            best, chosen = error, factors
    return chosen


def _reads(site: ChannelSite, seen: Mapping[str, Channels]) -> Sequence[Vector] | Channels:
    if site.partner is not None:
        return seen[str(site.partner.name)]
    return [_columns(edit, site.channels) for edit in site.readers]


def _columns(edit: Edit, channels: int) -> Vector:
    """A weight as ``[channels, outputs]``; of a convolution every output has its places of the kernel behind it."""
    array = np.moveaxis(edit.array().astype(np.float64), edit.axis, 0)
    return array.reshape(channels, -1)


def _channels(
    model: ir.Model, sites: Sequence[ChannelSite], feeds: Collection[Feed], threads: int
) -> dict[str, Channels]:
    """Three numbers a channel of every value of the sites; only these leave the graph."""
    wanted: dict[str, Axes] = {}
    for site in sites:
        wanted[site.name] = site.axes
        if site.partner is not None:
            wanted[str(site.partner.name)] = site.partner_axes
    probe = model.clone()
    computed = {str(value.name): value for node in probe.graph for value in node.outputs}
    names: dict[str, tuple[str, ...]] = {}
    for name, axes in wanted.items():
        names[name] = _probe(probe, computed[name], axes)
    if not names:
        return {}
    runner = Runner(probe, threads=threads, label="the graph in calibration")
    asked = [one for group in names.values() for one in group]
    runs = [runner.run(feed, asked) for feed in feeds]
    found = {}
    for name, (low, high, square) in names.items():
        found[name] = Channels(
            np.minimum(np.min([run[low] for run in runs], axis=0).astype(np.float64).ravel(), 0.0),
            np.maximum(np.max([run[high] for run in runs], axis=0).astype(np.float64).ravel(), 0.0),
            np.mean([run[square] for run in runs], axis=0).astype(np.float64).ravel(),
        )
    return found


def _probe(model: ir.Model, value: ir.Value, axes: Axes) -> tuple[str, ...]:
    """Add three outputs, a number a channel each: the smallest, the largest, the mean square."""
    graph = model.graph
    rank = len(value.shape or ())
    others = [axis for axis in range(rank) if axis not in axes]
    node = value.producer()
    if node is None:
        raise ValueError("a site is computed")
    patch = Patch.behind(node)
    squared = patch.op("Mul", [value, value], like=value)
    found = []
    for op_type, source in (("ReduceMin", value), ("ReduceMax", value), ("ReduceMean", squared)):
        if graph.opset_imports.get("", 1) < 18:
            made = patch.op(op_type, [source], {"axes": others, "keepdims": 0})
        else:
            made = patch.op(op_type, [source, patch.constant(np.asarray(others, np.int64))], {"keepdims": 0})
        made.type = ir.TensorType(ir.DataType.FLOAT)
        made.name = f"{value.name}.{op_type}"
        graph.outputs.append(made)
        found.append(made.name)
    return tuple(found)
