"""The section of report.html that says where the damage comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chipwise.report.attribution import Attribution, LayerDamage
from chipwise.report.html_format import number
from chipwise.report.html_svg import Axis, Plot

SHOWN_LAYERS = 12
"""Layers in the table; report.json has them all."""

SHOWN_TENSORS = 8
"""Tensors in the table; report.json has them all."""

_IN_LAYER = re.compile(r"layers\.(\d+)\.(\w+)")
_KINDS = (("attention", "s1"), ("feed_forward", "s2"), ("residual", "s3"))
_WORDS = {
    "attention": "attention",
    "feed_forward": "feed-forward",
    "residual": "residual stream",
    "kv_cache": "KV cache",
    "embedding": "embedding",
    "output": "output layer",
    "positions": "positions",
    "template": "chat template",
    "runtime": "runtime",
}


def layer_words(name: str) -> str:
    """A layer's or a fault's name as people read it, e.g. ``layer 3 attention``."""
    found = _IN_LAYER.fullmatch(name)
    if found:
        return f"layer {found[1]} {_WORDS.get(found[2], found[2])}"
    return _WORDS.get(name, name)


def attribution_section(found: Attribution | None) -> Markup:
    """The section; empty if nothing was attributed."""
    if found is None:
        return Markup("")
    carrying = found.carrying()
    return Markup(
        _TEMPLATE.render(
            found=found,
            carrying=carrying,
            share=_share(carrying, found.whole_layers),
            layers=found.layers[:SHOWN_LAYERS],
            tensors=found.tensors[:SHOWN_TENSORS],
            damage_plot=damage_plot(found.layers),
            error_plots=[
                (f"{_WORDS[kind].capitalize()}: own and inherited error", error_plot(found.layers, kind))
                for kind, _ in _KINDS
                if any(_place(layer.layer, kind) is not None for layer in found.layers)
            ],
        )
    )


def damage_plot(layers: Sequence[LayerDamage]) -> Markup | None:
    """Damage along the decoder, a bar a layer and kind; None if no layer is numbered."""
    placed = [
        (place, offset, css, _WORDS[kind], layer)
        for offset, (kind, css) in enumerate(_KINDS)
        for layer in layers
        if (place := _place(layer.layer, kind)) is not None
    ]
    if not placed:
        return None
    count = 1 + max(place for place, *_ in placed)
    top = max([layer.damage_nats for *_, layer in placed if math.isfinite(layer.damage_nats)], default=0.0) or 1e-9
    plot = Plot(
        x=Axis(0, count, _layer_ticks(count, 0.5), "layer"),
        y=Axis(0, top * 1.08, [(top * i / 3, number(top * i / 3, 2)) for i in range(4)], "damage, nats"),
        label="Damage by layer",
        left=66,
    )
    for place, offset, css, words, layer in placed:
        left = place + 0.1 + 0.27 * offset
        hint = f"{layer_words(layer.layer)}: {number(layer.damage_nats)} nats"
        plot.bar(left, left + 0.25, min(max(0.0, layer.damage_nats), top), css, hint, words)
    return plot.svg()


def error_plot(layers: Sequence[LayerDamage], kind: str) -> Markup:
    """Relative errors of one kind of layer along the decoder, on a logarithmic scale."""
    found = sorted((place, one) for one in layers if (place := _place(one.layer, kind)) is not None)
    last = max(1, found[-1][0])
    low, high = -6.0, 1.0
    plot = Plot(
        x=Axis(0, last, _layer_ticks(last + 1, 0.0), "layer"),
        y=Axis(low, high, [(10.0**i, f"{10.0**i:g}") for i in range(-6, 2)], "relative error", _decades),
        label=f"Errors by layer, {_WORDS[kind]}",
        left=66,
    )
    for css, words, values in (
        ("s1", "own", [one.own_error for _, one in found]),
        ("s2", "inherited", [one.inherited_error for _, one in found]),
    ):
        points = [
            (float(place), value, f"{layer_words(one.layer)}, {words}: {number(value)}")
            for (place, one), value in zip(found, values, strict=True)
        ]
        plot.line(points, css, words, dots=True)
    return plot.svg()


def _decades(error: float) -> float:
    return math.log10(error) if 0 < error < math.inf else (-6.0 if error == 0 else 1.0)


def _layer_ticks(count: int, shift: float) -> list[tuple[float, str]]:
    every = max(1, math.ceil(count / 10))
    return [(place + shift, str(place)) for place in range(0, count, every)]


def _place(name: str, kind: str) -> int | None:
    found = _IN_LAYER.fullmatch(name)
    return int(found[1]) if found and found[2] == kind else None


def _share(carrying: Sequence[LayerDamage], layers: Sequence[LayerDamage]) -> float:
    total = sum(max(0.0, layer.damage_nats) for layer in layers)
    carried = sum(layer.damage_nats for layer in carrying)
    return carried / total if total and math.isfinite(total) else 1.0


def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader("chipwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"number": number, "words": layer_words}
    return env


_TEMPLATE = _environment().get_template("attribution.html.j2")
