"""Attribution measured: each layer's precision swapped in and out, on some texts. Host side only."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from chipwise.errors import InputError
from chipwise.model.decoder import names
from chipwise.report.attribution import Attribution, LayerDamage, TensorCount
from chipwise.verify.attribution.blame import blame
from chipwise.verify.attribution.boundaries import cuttable
from chipwise.verify.attribution.decoder_pair import Base, DecoderPair
from chipwise.verify.attribution.layer import Layer, layers_of
from chipwise.verify.attribution.lost_values import LostValues
from chipwise.verify.attribution.mixture import Side
from chipwise.verify.attribution.phase import Text
from chipwise.verify.attribution.split_graph import Values
from chipwise.verify.attribution.tally import Divergence, Logits, PhaseTally
from chipwise.verify.generate import Progress

READ, STEP = 0, 1


def attribute(
    pair: DecoderPair, texts: Sequence[Text], *, budget_s: float = math.inf, progress: Progress | None = None
) -> Attribution:
    """Find which layers a candidate's drift comes from.

    Both graphs are cut between their layers. A text runs through the reference and through the candidate; then, for
    each layer, through the reference with the candidate's layer in it, whose first difference is the layer's own error,
    and through the candidate with the reference's layer in it. What lies before the layer is not run again. Where the
    decoder is two graphs, a layer is swapped in both, and some tokens are added to the cache that reading left.

    Args:
        pair: The reference's graphs and the candidate's.
        texts: What is run, a few of those that drifted most; those too long for the graphs are cut or left out.
        budget_s: Once this is spent, no other text is begun: one says nearly what several do.
        progress: Told the texts done.

    Raises:
        InputError: No text fits.
        RewriteError: ONNX Runtime fails on a part.
    """
    fitting = [text for text in map(pair.fit, texts) if text is not None]
    if not fitting:
        raise InputError("no text fits the graphs, so nothing can be attributed", remedy="give shorter cases")
    layers = layers_of(pair.graphs[0]["reference"].parts)
    tally, lost = _Tally(pair, layers), _Lost(pair)
    end_s = time.monotonic() + budget_s
    done = 0
    for text in fitting:
        bases = list(pair.bases(text))
        tally.add(bases)
        lost.add(bases)
        done += 1
        if progress:
            progress(done, len(fitting))
        if time.monotonic() > end_s:
            break
    damages = tally.damages()
    whole = tally.whole
    return Attribution(
        faults=blame(damages, tally.kl_nats),
        layers=damages,
        tensors=lost.tensors(),
        kl_nats=tally.kl_nats,
        kl_read_nats=whole[READ].mean_nats,
        kl_step_nats=whole[STEP].mean_nats if len(pair.graphs) > 1 else None,
        texts=done,
    )


class _Tally:
    """Sums over texts, for each layer and phase."""

    def __init__(self, pair: DecoderPair, layers: Sequence[Layer]) -> None:
        self._pair, self._layers = pair, layers
        self._phases = range(len(pair.graphs))
        self._by_layer: Mapping[str, Sequence[PhaseTally]] = {
            layer.name: [PhaseTally() for _ in self._phases] for layer in layers
        }
        self.whole = [Divergence() for _ in self._phases]

    @property
    def kl_nats(self) -> float:
        return _mean(self.whole)

    def add(self, bases: Sequence[Base]) -> None:
        for base in bases:
            self.whole[_phase(base)].add(_logits(base, "reference"), _logits(base, "candidate"))
        for layer in self._layers:
            self._swap_in(layer, bases)
            self._swap_out(layer, bases)

    def damages(self) -> tuple[LayerDamage, ...]:
        found = [self._damage(layer) for layer in self._layers]
        return tuple(sorted(found, key=lambda one: (-one.damage_nats, -one.own_error)))

    def _swap_in(self, layer: Layer, bases: Sequence[Base]) -> None:
        read = bases[0]
        mixed = read.mixture.swapped("reference", read.values["reference"], layer.parts)
        for base in bases:
            tally = self._by_layer[layer.name][_phase(base)]
            ours, theirs = base.values["reference"], base.values["candidate"]
            alone: Values = mixed
            if base is not read:
                past = self._pair.past(base, "reference", mixed, read.values["reference"])
                alone = base.mixture.swapped("reference", ours, layer.parts, past)
            tally.errors.add(layer.measured, ours, alone, theirs)
            tally.alone.add(_logits(base, "reference"), _rows(alone, base))

    def _swap_out(self, layer: Layer, bases: Sequence[Base]) -> None:
        read = bases[0]
        mixed = read.mixture.swapped("candidate", read.values["candidate"], layer.parts)
        for base in bases:
            without: Values = mixed
            if base is not read:
                past = self._pair.past(base, "candidate", mixed, read.values["candidate"])
                without = base.mixture.swapped("candidate", base.values["candidate"], layer.parts, past)
            tally = self._by_layer[layer.name][_phase(base)]
            tally.without.add(_logits(base, "reference"), _rows(without, base))

    def _damage(self, layer: Layer) -> LayerDamage:
        tallies = self._by_layer[layer.name]
        alone, without = (_mean([getattr(one, name) for one in tallies]) for name in ("alone", "without"))
        return LayerDamage(
            layer=layer.name,
            own_error=max(one.errors.relative(one.errors.own) for one in tallies),
            inherited_error=max(one.errors.relative(one.errors.inherited) for one in tallies),
            kl_in_nats=alone,
            kl_out_nats=without,
            damage_nats=(alone + restored(self.kl_nats, without)) / 2,
            inside=layer.inside,
        )


def restored(kl_nats: float, without_nats: float) -> float:
    """How much of a divergence goes when a layer is taken out; it may be a little below zero."""
    if math.isinf(without_nats):
        return 0.0
    return kl_nats - without_nats


def _phase(base: Base) -> int:
    return READ if base.tokens is None else STEP


def _mean(phases: Sequence[Divergence]) -> float:
    ran = [one.mean_nats for one in phases if one.positions]
    return sum(ran) / len(ran) if ran else 0.0


def _logits(base: Base, side: Side) -> Logits:
    return _rows(base.values[side], base)


def _rows(values: Values, base: Base) -> Logits:
    logits = values[names.LOGITS]
    rows: Logits = logits.reshape(-1, logits.shape[-1])[base.rows]
    return rows


class _Lost:
    """What the candidate's own runs lose, a tensor."""

    def __init__(self, pair: DecoderPair) -> None:
        self._counters = [LostValues(cuttable(pair.candidate[role]), role, threads=pair.threads) for role in pair.roles]

    def add(self, bases: Sequence[Base]) -> None:
        for base in bases:
            past = {name: array for name, array in base.values["candidate"].items() if name.startswith("past.")}
            self._counters[_phase(base)].run({**base.mixture.feeds["candidate"], **past})

    def tensors(self) -> tuple[TensorCount, ...]:
        """The most first; values that are not finite before those that saturate."""
        found = [count for counter in self._counters for count in counter.result()]
        return tuple(sorted(found, key=lambda one: (-one.nonfinite, -one.saturated / max(1, one.values))))
