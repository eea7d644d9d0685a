"""Mask range: how low a mask must reach, measured on real inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from chipwise.check.mask_sites import MaskSite, mask_sites
from chipwise.rewrite.edit import add_constant
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Array, Runner

# All masked keys of a row together may weigh this much beside the row's best key.
_LEAK = 1e-6
# Share of the measured range of scores that is added for inputs not seen.
_HEADROOM = 0.25


@dataclass(frozen=True)
class MaskRange:
    """What was measured at one masked softmax.

    Attributes:
        top_min: Lowest of the rows' highest scores that are not masked.
        excess_max: How far a masked score rose above the highest unmasked one of its row, at most; at least 0.
        spread: Highest less lowest score.
        keys: Length of a row.
        dead_rows: Rows in which everything is masked.
    """

    top_min: float
    excess_max: float
    spread: float
    keys: int
    dead_rows: int

    def needed(self, *, additive: bool) -> float:
        """The number that masks: the whole row's masked keys weigh at most 1e-6 of its best key.

        A number added to a score must outweigh the score; a number put in its place need only lie below the row's
        best. ``exp(m) * keys <= 1e-6`` gives the margin.
        """
        margin = math.log(self.keys / _LEAK) + _HEADROOM * self.spread
        return -self.excess_max - margin if additive else self.top_min - margin


def measure(model: ir.Model, feeds: Sequence[Feed], *, threads: int = 2) -> list[MaskRange | None]:
    """Measure every mask site of a model's graph, in the order of ``mask_sites``.

    None stands for a site that no row of the inputs can tell about (all rows fully masked).

    Raises:
        RewriteError: The model does not run.
        InputError: A sample does not fit the model.
    """
    probe = model.clone()
    sites = mask_sites(probe.graph)
    opset = probe.graph.opset_imports.get("", 1)
    outputs = [_probe(probe.graph, site, opset) for site in sites]
    names = [name for group in outputs for name in group]
    runner = Runner(probe, threads=threads, label="the model with its scores exposed")
    runs = [runner.run(feed, names) for feed in feeds]
    return [_summary([[run[name] for name in group] for run in runs]) for group in outputs]


def _probe(graph: ir.Graph, site: MaskSite, opset: int) -> tuple[str, ...]:
    """Add four outputs and return their names.

    They are the highest unmasked, the highest masked and the lowest unmasked score of every row, and the shape.
    Only these leave the graph: the scores of a long context would not fit in memory.
    """
    masked = site.join.outputs[0]
    dtype = masked.dtype or site.scores.dtype or ir.DataType.FLOAT

    def op(op_type: str, inputs: list[ir.Value], attributes: dict[str, list[int]] | None = None) -> ir.Value:
        node = ir.node(op_type, inputs, attributes=attributes or {})
        graph.append(node)
        return node.outputs[0]

    def constant(x: float) -> ir.Value:
        return add_constant(graph, np.asarray(x).astype(dtype.numpy()), "probe")

    def reduced(op_type: str, value: ir.Value) -> ir.Value:
        if opset < 18:
            found = op(op_type, [value], {"axes": [-1]})
        else:
            found = op(op_type, [value, add_constant(graph, np.asarray([-1], dtype=np.int64), "probe")])
        found.type = ir.TensorType(dtype)
        return found

    # Half way to the mask: scores do not get there. float16 holds -65504 at most.
    blocked = op("Less", [masked, constant(max(site.highest / 2, -3e4))])
    low, high = constant(-np.inf), constant(np.inf)
    shape = op("Shape", [masked])
    shape.type = ir.TensorType(ir.DataType.INT64)
    found = (
        reduced("ReduceMax", op("Where", [blocked, low, masked])),
        reduced("ReduceMax", op("Where", [blocked, site.scores, low])),
        reduced("ReduceMin", op("Where", [blocked, high, masked])),
        shape,
    )
    graph.outputs.extend(found)
    return tuple(str(value.name) for value in found)


def _summary(runs: list[list[Array]]) -> MaskRange | None:
    """One range over all samples."""
    tops, excesses, highs, lows = [], [], [], []
    keys = dead = 0
    for top, blocked_top, lowest, shape in runs:
        alive = np.isfinite(top)
        dead += int((~alive).sum())
        keys = max(keys, int(shape[-1]))
        if not alive.any():
            continue
        masked = alive & np.isfinite(blocked_top)
        tops.append(float(top[alive].min()))
        highs.append(float(max(top[alive].max(), blocked_top[masked].max(initial=-np.inf))))
        lows.append(float(lowest[alive].min()))
        excesses.append(float((blocked_top[masked] - top[masked]).max(initial=-np.inf)))
    if not tops:
        return None
    excess = max(max(excesses), 0.0) if np.isfinite(max(excesses)) else 0.0
    return MaskRange(min(tops), excess, max(highs) - min(lows), keys, dead)
