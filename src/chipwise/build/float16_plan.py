"""Float16 plan: what of a decoder must stay in 16 bits on a chip of 8-bit activations, measured before it is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.build.portable_graphs import PortableGraphs
from chipwise.model.decoder import names
from chipwise.quant.calibration import Progress, calibrate
from chipwise.quant.emulate import emulate_activations, stored_values
from chipwise.quant.float16_choice import Drifted, GatedModel, GroupDamage, choose_float16, drift_of
from chipwise.quant.precision_gates import add_precision_gates, gated_values
from chipwise.quant.product_groups import ProductGroup, product_groups
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

# The end of a text is the reference's answer; every prompt begins with the same template.
_ROWS = 24
_SINGLE_TEXTS = 3
_JOINT_TEXTS = 24
# Ranges fit the texts they come from: on SmolLM2-135M 0.006 nats there are 0.014 on others.
_MEASURED_SHARE = 3
_FEWEST_TEXTS = 6
# Weights are not rounded in the measurement, nor is a cache read back: of SmolLM2-135M whole the simulator read 2.4
# times what was foreseen, in divergence and in tokens lost.
_MARGIN = 0.35


@dataclass(frozen=True)
class Aim:
    """What a build must reach.

    Attributes:
        kl_nats: Mean divergence of the logits, at most.
        agreement: Share of tokens both would choose, at least.
    """

    kl_nats: float
    agreement: float

    def met_by(self, drifted: Drifted) -> bool:
        """Whether a measured drift leaves room for what the measurement leaves out."""
        lost, allowed = 1 - drifted.agreement, 1 - self.agreement
        return drifted.kl_nats <= _MARGIN * self.kl_nats and lost <= _MARGIN * allowed


@dataclass(frozen=True)
class Float16Plan:
    """What stays in float16.

    Attributes:
        kept: The groups of products, in the order they were chosen.
        damages: What each group costs in 8 bits.
        left: The drift that is left, as measured with 8-bit activations of all other groups.
    """

    kept: tuple[GroupDamage, ...]
    damages: tuple[GroupDamage, ...]
    left: Drifted

    @property
    def eight_bits(self) -> list[ProductGroup]:
        """The groups that are not kept."""
        kept = {one.group.value for one in self.kept}
        return [one.group for one in self.damages if one.group.value not in kept]

    @property
    def more_bytes(self) -> int:
        """Bytes that the kept weights take more than in 8 bits."""
        return sum(one.group.weight_count for one in self.kept)

    def line(self) -> str:
        """What is kept, in words."""
        return (
            f"{len(self.kept)} of {len(self.damages)} groups of products, {self.more_bytes} bytes more than in 8 bits, "
            "and all operators without weights"
        )


def emulated_drift(graphs: PortableGraphs, texts: Sequence[Sequence[int]], threads: int, progress: Progress) -> Drifted:
    """How far logits move when all activations have 8 bits, as a plain build has them."""
    dynamic, (calibrating, measured) = graphs.dynamic(), _shared_out(graphs, texts)
    ranges = calibrate(dynamic, calibrating, stored_values(dynamic), threads=threads, progress=progress)
    emulated = graphs.dynamic()
    emulate_activations(emulated, ranges)
    before, after = (Runner(graph, threads=threads, label="the decoder") for graph in (dynamic, emulated))
    pairs = [(_logits(before, feed), _logits(after, feed)) for feed in measured[:_JOINT_TEXTS]]
    return drift_of(pairs)


def plan_float16(
    graphs: PortableGraphs,
    texts: Sequence[Sequence[int]],
    aim: Aim,
    threads: int,
    progress: Progress,
    *,
    keep_output: bool = False,
) -> Float16Plan:
    """Measure each group of products, and choose.

    Args:
        graphs: The decoder; its ``reference`` has been written.
        texts: Token ids of real texts.
        aim: What must be reached.
        threads: Threads of a run.
        progress: Told the groups measured.
        keep_output: Whether the output layer must stay in float16 for another reason.

    Raises:
        InputError: There are no texts.
        RewriteError: The graph fails, or a value is not finite.
    """
    dynamic, (calibrating, measured) = graphs.dynamic(), _shared_out(graphs, texts)
    groups = product_groups(dynamic)
    ranges = calibrate(dynamic, calibrating, gated_values(groups), threads=threads)
    add_precision_gates(dynamic, groups, ranges)
    runner = Runner(dynamic, threads=threads, label="the decoder with precision gates")
    model = GatedModel(runner, measured[:_JOINT_TEXTS], groups)
    damages = model.damages(texts=_SINGLE_TEXTS, progress=progress)
    always = {place for place, group in enumerate(groups) if keep_output and names.LOGITS in group.outputs}
    kept, left = choose_float16(model, damages, aim.met_by, always=always)
    return Float16Plan(tuple(kept), tuple(damages), left)


def _shared_out(graphs: PortableGraphs, texts: Sequence[Sequence[int]]) -> tuple[list[Feed], list[Feed]]:
    """Texts that ranges come from, and others that are measured; the same for both if there are few."""
    feeds = [_feed(graphs, text) for text in texts]
    held_out = len(feeds) // _MEASURED_SHARE
    return (feeds, feeds) if len(feeds) < _FEWEST_TEXTS else (feeds[held_out:], feeds[:held_out])


def _feed(graphs: PortableGraphs, text: Sequence[int]) -> Feed:
    """The inputs that give the logits at the end of a text."""
    rows = np.arange(max(0, len(text) - _ROWS), len(text), dtype=np.int64)
    return {**graphs.feed(text), names.OUTPUT_ROWS: rows}


def _logits(runner: Runner, feed: Feed) -> npt.NDArray[np.float32]:
    logits: npt.NDArray[np.float32] = runner.run(feed, [names.LOGITS])[names.LOGITS]
    return logits
