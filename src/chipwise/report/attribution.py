"""Attribution: which layers a candidate's drift comes from, as verification found by swapping their precision."""

from __future__ import annotations

from dataclasses import dataclass

TEMPLATE = "template"
RUNTIME = "runtime"
NOTHING = ""


@dataclass(frozen=True)
class LayerDamage:
    """What one layer does to the candidate.

    Errors are relative: the norm of a difference over the norm of the reference's values. The difference of the
    candidate's values to the reference's is the sum of both errors' differences. An error or divergence is infinite
    where values are not finite.

    Attributes:
        layer: ``embedding``, ``positions``, ``layers.N.attention``, ``layers.N.feed_forward``, ``layers.N.residual``
            (the stream that both are added to), ``output``; inside attention ``layers.N.kv_cache``; ``kv_cache`` for
            those of all layers together.
        own_error: Of the candidate's layer on the reference's activations.
        inherited_error: What the same layer makes of the candidate's own activations, against that.
        kl_in_nats: Divergence of next tokens when this layer alone has the candidate's precision.
        kl_out_nats: Divergence when all layers but this one have it.
        damage_nats: What the layer is ranked by: mean of ``kl_in_nats`` and of what ``kl_out_nats`` is below the
            candidate's.
        inside: The layer it is a piece of, ``all`` for a piece of several; empty for one that stands for itself.
    """

    layer: str
    own_error: float
    inherited_error: float
    kl_in_nats: float
    kl_out_nats: float
    damage_nats: float
    inside: str = ""


@dataclass(frozen=True)
class TensorCount:
    """Values of one tensor of the candidate that are lost.

    Attributes:
        name: The tensor.
        graph: The graph it is in: ``decoder``, ``prefill`` or ``decode``.
        values: Values seen.
        nonfinite: Those that are NaN or infinite.
        saturated: Those that lie outside the range of their integers, or at the end of float16's.
    """

    name: str
    graph: str
    values: int
    nonfinite: int
    saturated: int


@dataclass(frozen=True)
class Fault:
    """What is to blame.

    Attributes:
        name: A layer's name, ``kv_cache``, ``positions``, ``template`` or ``runtime``.
        why: What shows it, in a sentence.
    """

    name: str
    why: str


@dataclass(frozen=True)
class Attribution:
    """Where a candidate's damage comes from.

    Attributes:
        faults: What is to blame, the most first; empty if nothing is damaged.
        layers: Every layer, the most damaging first; pieces of layers among them.
        tensors: Tensors with values that are not finite or saturate, the most of them first.
        kl_nats: The candidate's divergence in these graphs and texts: the mean of the next two.
        kl_read_nats: Where a text is read whole.
        kl_step_nats: Where a token is added to a cache; None where one graph does both.
        texts: Texts that were run.
    """

    faults: tuple[Fault, ...] = ()
    layers: tuple[LayerDamage, ...] = ()
    tensors: tuple[TensorCount, ...] = ()
    kl_nats: float = 0.0
    kl_read_nats: float = 0.0
    kl_step_nats: float | None = None
    texts: int = 0

    @property
    def culprit(self) -> str:
        """The name of what is to blame first; empty if nothing is."""
        return self.faults[0].name if self.faults else NOTHING

    @property
    def whole_layers(self) -> tuple[LayerDamage, ...]:
        """The layers that stand for themselves, the most damaging first."""
        return tuple(layer for layer in self.layers if not layer.inside)

    def carrying(self, share: float = 0.8) -> tuple[LayerDamage, ...]:
        """The fewest layers that carry a share of all layers' damage."""
        total = sum(layer.damage_nats for layer in self.whole_layers)
        found: list[LayerDamage] = []
        carried = 0.0
        for layer in self.whole_layers:
            if layer.damage_nats <= 0 or carried >= share * total:
                break
            found.append(layer)
            carried += layer.damage_nats
        return tuple(found)
