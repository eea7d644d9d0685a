"""Float16 choice: which groups of products must leave 8 bits, by what each costs the model's answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.model.decoder import names
from chipwise.quant.calibration import Progress
from chipwise.quant.precision_gates import GATES
from chipwise.quant.product_groups import ProductGroup
from chipwise.rewrite.pass_ import Feed
from chipwise.rewrite.runner import Runner

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Drifted:
    """How far logits moved.

    Attributes:
        kl_nats: Mean Kullback-Leibler divergence from the float logits.
        agreement: Share of positions whose most likely token stays.
    """

    kl_nats: float
    agreement: float

    def line(self) -> str:
        """It in words."""
        return f"KL {self.kl_nats:.3g} nats, top-1 agreement {self.agreement:.1%}"


@dataclass(frozen=True)
class GroupDamage:
    """What a group costs in 8 bits, all else in floating point.

    Attributes:
        group: The group.
        kl_nats: Mean divergence of the logits.
    """

    group: ProductGroup
    kl_nats: float

    @property
    def a_byte(self) -> float:
        """Divergence saved for each byte that float16 weights take more than 8-bit ones."""
        return self.kl_nats / max(1, self.group.weight_count)


class GatedModel:
    """A graph with precision gates, and what it says of each setting on some texts.

    Args:
        runner: The graph, open.
        feeds: Its inputs but for the gates, one entry a text.
        groups: The groups of its gates.
    """

    def __init__(self, runner: Runner, feeds: Sequence[Feed], groups: Sequence[ProductGroup]) -> None:
        self._runner, self._feeds, self.groups = runner, feeds, groups
        self._plain = [self._logits(feed, frozenset()) for feed in feeds]

    def drift(self, eight_bits: Collection[int], texts: int | None = None) -> Drifted:
        """How far the logits move with some groups, by their places, in 8 bits; on the first texts or all."""
        runs = zip(self._plain[:texts], self._feeds[:texts], strict=True)
        return drift_of((plain, self._logits(feed, eight_bits)) for plain, feed in runs)

    def damages(self, *, texts: int, progress: Progress) -> list[GroupDamage]:
        """What each group costs alone, on the first texts."""
        found = []
        for place, group in enumerate(self.groups):
            found.append(GroupDamage(group, self.drift({place}, texts).kl_nats))
            progress(place + 1, len(self.groups))
        return found

    def _logits(self, feed: Feed, eight_bits: Collection[int]) -> Logits:
        gates = np.zeros(len(self.groups), np.float32)
        gates[list(eight_bits)] = 1
        logits: Logits = self._runner.run({**feed, GATES: gates}, [names.LOGITS])[names.LOGITS]
        return logits


def choose_float16(
    model: GatedModel,
    damages: Sequence[GroupDamage],
    good: Callable[[Drifted], bool],
    *,
    always: Collection[int] = (),
) -> tuple[list[GroupDamage], Drifted]:
    """The groups to keep in float16: as few bytes as make the model good, those first that save most for a byte.

    Divergences of groups add up nearly, so the order of the single costs is the order of the joint ones; how many are
    needed is found by halving, on the joint model. The output layer is large and moves divergence little, but its
    rounding decides between tokens that are nearly as likely: keeping it first is tried too, and the smaller set taken.

    Args:
        model: The model.
        damages: What each of its groups costs.
        good: Whether a drift is small enough.
        always: Places of groups that are kept if any is.

    Returns:
        The groups in the order they were chosen, and the drift that is left. All groups if nothing less is good.
    """
    order = sorted(range(len(damages)), key=lambda place: (place not in always, -damages[place].a_byte))
    output_first = sorted(order, key=lambda place: names.LOGITS not in damages[place].group.outputs)
    found = [_fewest(model, damages, one, good) for one in (order, output_first)]
    return min(found, key=lambda one: sum(kept.group.weight_count for kept in one[0]))


def _fewest(
    model: GatedModel, damages: Sequence[GroupDamage], order: Sequence[int], good: Callable[[Drifted], bool]
) -> tuple[list[GroupDamage], Drifted]:
    """The fewest groups from the front of an order that make the model good, and what is left."""
    low, high = 0, len(order)
    left = Drifted(0.0, 1.0)
    while low < high:
        middle = (low + high) // 2
        drifted = model.drift(order[middle:])
        if good(drifted):
            high, left = middle, drifted
        else:
            low = middle + 1
    return [damages[place] for place in order[:high]], left


def drift_of(pairs: Iterable[tuple[Logits, Logits]]) -> Drifted:
    """How far logits ``[rows, vocab]`` moved, over the rows of all pairs of before and after; of at least one."""
    kl, agrees = [], []
    for before, after in pairs:
        p, q = _log_softmax(before), _log_softmax(after)
        kl.append((np.exp(p) * (p - q)).sum(-1))
        agrees.append(before.argmax(-1) == after.argmax(-1))
    return Drifted(float(np.concatenate(kl).mean()), float(np.concatenate(agrees).mean()))


def _log_softmax(logits: Logits) -> npt.NDArray[np.float64]:
    moved = logits.astype(np.float64)
    moved -= moved.max(-1, keepdims=True)
    lower: npt.NDArray[np.float64] = moved - np.log(np.exp(moved).sum(-1, keepdims=True))
    return lower
