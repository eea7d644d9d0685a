"""Equalized channels: channels far larger than their neighbours shrink, and what reads them grows as much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.errors import RewriteError
from chipwise.rewrite.channel_sites import channel_sites
from chipwise.rewrite.edit import remove_unused
from chipwise.rewrite.pass_ import PassResult, RewriteContext, Tolerance

# Other numbers are rounded at other places; a softmax multiplies the difference.
_TOLERANCE = Tolerance(max_rel=1e-4, max_abs=1e-6)


@dataclass(frozen=True)
class EqualizedChannels:
    """Divide the channels of values by factors and multiply the weights that read them by the same.

    One scale for a whole value must cover its largest channel, and leaves the others few steps (arXiv 2211.10438). The
    product stays what it was: ``(x / s) (s W) = x W``. Where factors come from: ``chipwise.quant.equalize``.

    1. Behind a norm, a product, or a product with bias: its weight (and bias) is divided, the next one's multiplied.
    2. The linear side of a gated product, values on their way through attention, queries against keys.
    3. A value that anything else reads, or whose channels cannot be followed: it is no site and stays.

    Attributes:
        factors: Positive factors of each value's channels, ``[channels]``, by the value's name (``channel_sites``).
    """

    factors: Mapping[str, npt.NDArray[np.float64]]
    name: str = "equalized_channels"
    requires: tuple[str, ...] = ()
    optional: bool = True
    tolerance: Tolerance = _TOLERANCE

    def apply(self, model: ir.Model, context: RewriteContext) -> PassResult:
        """Scale each site that has factors.

        Raises:
            RewriteError: Factors are not positive and finite, or not as many as channels.
        """
        done = []
        for site in channel_sites(model.graph):
            factors = self.factors.get(site.name)
            if factors is None:
                continue
            if len(factors) != site.channels or not (np.isfinite(factors).all() and (factors > 0).all()):
                raise RewriteError(f"the factors are not {site.channels} positive numbers", where=f"value {site.name}")
            for edit in (*site.writers, *site.readers):
                edit.apply(factors)
            done.append(site.name)
        if not done:
            return PassResult(model, False)
        remove_unused(model)
        return PassResult(model, True, (f"{len(done)} values have even channels, e.g. {done[0]}",))
