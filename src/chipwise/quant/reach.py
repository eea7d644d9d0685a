"""Reach: how far each token of some texts drives the values of a graph, and which tokens drive them furthest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.quant.calibration import tapped, value_groups
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reach:
    """The ends of values, token by token.

    A toolkit that is calibrated with few samples sees narrow ranges, and what lies beyond is clipped. A decode graph
    reads one token a sample: samples that reach the ends of all texts stand for all of them.

    Attributes:
        texts: The text of each token, ``[tokens]``.
        places: Its place in the text, ``[tokens]``.
        lows: The smallest number of each value at a token, ``[tokens, values]``.
        highs: The largest.
    """

    texts: Ints
    places: Ints
    lows: Floats
    highs: Floats

    def of_texts(self) -> Reach:
        """The same by text: one entry a text, at place 0."""
        which = np.unique(self.texts)
        rows = [self.texts == text for text in which]
        lows = np.stack([self.lows[row].min(0) for row in rows])
        highs = np.stack([self.highs[row].max(0) for row in rows])
        return Reach(which, np.zeros_like(which), lows, highs)

    def within(self, places: range) -> Reach:
        """The tokens at some places."""
        kept = (self.places >= places.start) & (self.places < places.stop)
        return Reach(self.texts[kept], self.places[kept], self.lows[kept], self.highs[kept])

    def furthest(self, at_most: int) -> list[tuple[int, int]]:
        """Text and place of the tokens that together reach furthest, those first that add most.

        Each adds, for both ends of every value, the share of the way that those before it did not go; fewer than
        ``at_most`` if they go all the way.
        """
        chosen: list[tuple[int, int]] = []
        if not len(self.texts):
            return chosen
        shares = np.concatenate([_shares(self.highs), _shares(-self.lows)], axis=1)
        reached = np.zeros(shares.shape[1], np.float32)
        while len(chosen) < at_most:
            gains = np.maximum(shares - reached, 0).sum(1)
            best = int(gains.argmax())
            if gains[best] <= 0:
                break
            chosen.append((int(self.texts[best]), int(self.places[best])))
            reached = np.maximum(reached, shares[best])
        return chosen


def measure_reach(model: ir.Model, feeds: Sequence[Feed], names: Sequence[str], *, threads: int) -> Reach:
    """Run a decoder's graph over texts, and keep the ends of some values at each token.

    Args:
        model: The graph of symbolic shapes. It is not changed.
        feeds: Its inputs, one entry a text; all tokens are asked for logits.
        names: Values ``[..., tokens, channels]``.
        threads: Threads of a run.

    Raises:
        RewriteError: The graph fails, or computes no such value.
    """
    lengths = [feed["input_ids"].shape[1] for feed in feeds]
    lows: list[list[Floats]] = [[] for _ in feeds]
    highs: list[list[Floats]] = [[] for _ in feeds]
    longest = feeds[int(np.argmax(lengths))]
    for group in value_groups(model, longest, names, threads):
        runner = Runner(tapped(model, group), threads=threads, label="the graph in calibration")
        for text, feed in enumerate(feeds):
            for values in runner.run(feed, group).values():
                by_token = np.moveaxis(values, -2, 0).reshape(lengths[text], -1)
                lows[text].append(by_token.min(1))
                highs[text].append(by_token.max(1))
    return Reach(
        texts=np.concatenate([np.full(n, text, np.int64) for text, n in enumerate(lengths)]),
        places=np.concatenate([np.arange(n, dtype=np.int64) for n in lengths]),
        lows=np.concatenate([np.stack(one, axis=1) for one in lows]),
        highs=np.concatenate([np.stack(one, axis=1) for one in highs]),
    )


def _shares(ends: Floats) -> Floats:
    """How much of the furthest end of each value a token reaches, 0 to 1."""
    out = np.maximum(ends, 0)
    furthest = out.max(0)
    shares: Floats = np.divide(out, furthest, out=np.zeros_like(out), where=furthest > 0)
    return shares
