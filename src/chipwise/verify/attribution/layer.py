"""Layer: a named piece of a decoder that can be blamed, and the parts of its graph that it is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from chipwise.errors import GraphError
from chipwise.model.decoder import names
from chipwise.verify.attribution.boundaries import joined

EMBEDDING = "embedding"
OUTPUT = "output"
POSITIONS = "positions"
KV_CACHE = "kv_cache"

_ROPES = tuple(table + kind for kind in ("", "_local") for table in (names.ROPE_COS, names.ROPE_SIN))


@dataclass(frozen=True)
class Part:
    """A piece of the graph between boundary values, in the order in which it runs.

    Attributes:
        name: Its name, e.g. ``layers.3.scores``.
        layer: The layer it belongs to, e.g. ``layers.3.attention``.
        inputs: Boundary values that it reads.
        outputs: Boundary values that it computes.
    """

    name: str
    layer: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """What can be blamed.

    Attributes:
        name: ``embedding``, ``positions``, ``layers.N.attention``, ``layers.N.feed_forward``, ``layers.N.residual``,
            ``output``; inside attention ``layers.N.kv_cache``; of all layers together ``kv_cache``.
        parts: The names of its parts.
        measured: The values by which its errors are measured.
        inside: The layer that this one is a piece of, ``all`` for a piece of several; empty for one that stands for
            itself.
    """

    name: str
    parts: frozenset[str]
    measured: tuple[str, ...]
    inside: str = ""


def parts_of(values: Collection[str], *, where: str, coarse: bool = False) -> list[Part]:
    """The parts of a graph that holds boundary values, in the order in which they run.

    Attention is one part where the graph fuses it, else four: projections, cache, scores and output projection.

    Args:
        values: Names of all values that the graph computes.
        where: The graph's file, for messages.
        coarse: Whether attention shall be one part, with its positions, whatever the graph: graphs of different kinds
            have no more in common.

    Raises:
        GraphError: The graph does not name its layers.
    """
    if names.EMBEDDED not in values or names.layer_output(0) not in values:
        raise GraphError(
            "the graph does not name the values between its layers", where=where,
            remedy="build the bundle again with this version of chipwise",
        )  # fmt: skip
    if coarse:
        inside = {names.attention_heads(layer) for layer in range(len(values))}
        values = [name for name in values if name not in _ROPES and name not in inside]
    ropes = tuple(name for name in _ROPES if name in values)
    parts = [Part(POSITIONS, POSITIONS, (), ropes)] if ropes else []
    parts.append(Part(EMBEDDING, EMBEDDING, (), (names.EMBEDDED,)))
    stream, layer = names.EMBEDDED, 0
    while names.layer_output(layer) in values:
        parts += _layer_parts(layer, stream, ropes, values)
        stream, layer = names.layer_output(layer), layer + 1
    parts.append(Part(OUTPUT, OUTPUT, (stream,), (names.LOGITS,)))
    return parts


def _layer_parts(layer: int, stream: str, ropes: tuple[str, ...], values: Collection[str]) -> Iterator[Part]:
    attention, feed_forward, residual = (f"layers.{layer}.{kind}" for kind in ("attention", "feed_forward", "residual"))
    out, middle, mlp = names.attention_output(layer), names.layer_middle(layer), names.mlp_output(layer)
    yield from _attention_parts(layer, attention, stream, ropes, values)
    yield Part(f"{residual}.middle", residual, (stream, out), (middle,))
    yield Part(feed_forward, feed_forward, (middle,), (mlp,))
    yield Part(f"{residual}.output", residual, (middle, mlp), (names.layer_output(layer),))


def _attention_parts(
    layer: int, name: str, stream: str, ropes: tuple[str, ...], values: Collection[str]
) -> Iterator[Part]:
    out, heads = names.attention_output(layer), names.attention_heads(layer)
    presents = tuple(names.present(layer, part) for part in ("key", "value"))
    query, key, value = (names.projection(layer, part) for part in ("query", "key", "value"))
    if not {query, key, value, heads} <= set(values):
        yield Part(name, name, (stream, *ropes), (out, *presents))
        return
    pasts = tuple(joined(layer, part) for part in ("key", "value"))
    has_past = set(pasts) <= set(values)
    seen = pasts if has_past else presents
    yield Part(f"layers.{layer}.projections", name, (stream,), (query, key, value))
    yield Part(f"layers.{layer}.{KV_CACHE}", name, (key, value, *ropes), (*presents, *pasts) if has_past else presents)
    yield Part(f"layers.{layer}.scores", name, (query, *ropes, *seen), (heads,))
    yield Part(f"layers.{layer}.output_projection", name, (heads,), (out,))


def layers_of(parts: Sequence[Part]) -> list[Layer]:
    """What can be blamed for what the parts of a graph compute: layers, then the caches inside them."""
    found: dict[str, Layer] = {}
    for part in parts:
        before = found[part.layer].parts if part.layer in found else frozenset[str]()
        # The last part of a layer computes what it is measured by, in front of any keys and values.
        measured = part.outputs if part.layer == POSITIONS else part.outputs[:1]
        found[part.layer] = Layer(part.layer, before | {part.name}, measured)
    caches = [part for part in parts if part.name.endswith(f".{KV_CACHE}")]
    inner = [Layer(part.name, frozenset({part.name}), part.outputs[:2], part.layer) for part in caches]
    if inner:
        everything = frozenset(part.name for part in caches)
        inner.append(Layer(KV_CACHE, everything, tuple(name for part in caches for name in part.outputs[:2]), "all"))
    return [*found.values(), *inner]


def layer_count(parts: Sequence[Part]) -> int:
    """How many layers the parts make."""
    return sum(part.layer.endswith(".feed_forward") for part in parts)
