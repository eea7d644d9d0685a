"""Repaired decoder: the same model in weights whose activations 8 bits harm less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chipwise.build.graph_files import GraphFiles
from chipwise.build.logits_proof import proven, read_logits
from chipwise.build.portable_graphs import PortableGraphs
from chipwise.model.decoder import names
from chipwise.model.weights import WeightSource
from chipwise.quant.calibration import Progress
from chipwise.quant.feed_forward_equalization import EqualizedWeights, feed_forward_factors
from chipwise.quant.product_groups import ProductGroup
from chipwise.quant.rotation import RotatedWeights, can_rotate
from chipwise.quant.rounded_weights import RoundedWeights, round_products
from chipwise.report.report import RewriteStep


@dataclass(frozen=True)
class RepairedDecoder:
    """Graphs of changed weights that compute what they did.

    Attributes:
        graphs: The graphs.
        reference: Their float32 files.
        steps: The proofs of what was changed.
    """

    graphs: PortableGraphs
    reference: GraphFiles
    steps: tuple[RewriteStep, ...] = ()


def repair_decoder(
    plain: PortableGraphs, reference: GraphFiles, texts: Sequence[Sequence[int]], folder: Path, threads: int
) -> RepairedDecoder:
    """Equalize what the feed-forward parts multiply, and rotate the residual stream and the values of each head.

    Args:
        plain: The decoder.
        reference: Its float32 files.
        texts: Token ids of real texts.
        folder: Where the graphs are written.
        threads: Threads of a run.

    Raises:
        RewriteError: The graph fails on a text, or a logit moved by more than float32 sums in another order do.
        OutputError: The disk does not take it.
    """
    factors = feed_forward_factors(plain.dynamic(), [plain.feed(text) for text in texts], threads=threads)
    config, weights = plain.config, plain.weights
    changed: WeightSource = EqualizedWeights(weights, factors)
    notes = [f"outlier channels of {len(factors)} feed-forward parts equalized"]
    if can_rotate(config):
        turned = RotatedWeights(changed, config)
        config, changed = turned.config, turned
        notes.append("the residual stream and the values of each head rotated")
    graphs = plain.with_weights(config, changed, folder)
    written, prompt = graphs.reference(), texts[0][: graphs.prefill_tokens]
    moved = proven("repair_decoder", *(read_logits(one, prompt, threads) for one in (reference, written)))
    return RepairedDecoder(graphs, written, (RewriteStep("repair_decoder", len(notes), moved, "; ".join(notes)),))


def round_decoder(
    repaired: RepairedDecoder,
    groups: Sequence[ProductGroup],
    texts: Sequence[Sequence[int]],
    folder: Path,
    threads: int,
    progress: Progress,
    *,
    group_size: int | None = None,
) -> RepairedDecoder:
    """The decoder with weights rounded by GPTQ to the grid that the toolkit will choose.

    Args:
        repaired: The decoder.
        groups: The products whose weights are rounded.
        texts: Token ids of real texts.
        folder: Where the graphs are written.
        threads: Threads of a run.
        progress: Told the groups done.
        group_size: Columns that share a scale, for 4 bits; None for 8 bits a channel.

    Raises:
        RewriteError: The graph fails on a text.
        OutputError: The disk does not take it.
    """
    graphs = repaired.graphs
    feeds = [graphs.feed(text) for text in texts]
    rounded = round_products(
        graphs.dynamic(), graphs.weights, groups, feeds, group_size=group_size, threads=threads, progress=progress
    )  # fmt: skip
    config = replace(graphs.config, tied_embeddings=graphs.config.tied_embeddings and names.LM_HEAD not in rounded)
    turned = graphs.with_weights(config, RoundedWeights(graphs.weights, rounded), folder)
    return RepairedDecoder(turned, turned.reference(), repaired.steps)
