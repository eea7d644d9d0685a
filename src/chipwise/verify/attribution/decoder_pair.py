"""DecoderPair: the graphs of reference and candidate, cut alike, and the runs that a text takes through them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.errors import InputError
from chipwise.verify.attribution.layer import layer_count
from chipwise.verify.attribution.mixture import Mixture, Side
from chipwise.verify.attribution.phase import Text, context_of, past_of, read_feed, read_limit, step_feed
from chipwise.verify.attribution.split_graph import SplitGraph, Values

Files = Mapping[str, Path]
"""A decoder's graphs by role: ``decoder``, or ``prefill`` and ``decode``."""

STEPS = 3
"""Tokens of an answer that are taken one at a time, a text."""


@dataclass(frozen=True)
class Base:
    """One run of both sides, whole.

    Attributes:
        mixture: The two graphs with their inputs.
        values: Boundary values of each side.
        rows: The rows of the logits that are compared.
        tokens: Tokens in the cache before; None where a text is read whole.
    """

    mixture: Mixture
    values: Mapping[Side, Values]
    rows: slice
    tokens: int | None = None


class DecoderPair:
    """Both decoders.

    Args:
        reference: The reference's graphs.
        candidate: The candidate's.
        threads: Threads of a run.

    Raises:
        GraphError: A file holds no decoder whose layers are named.
        InputError: The two are not cut alike.
    """

    def __init__(self, reference: Files, candidate: Files, *, threads: int = 2) -> None:
        self.candidate, self.threads = candidate, threads
        roles = _roles(reference, candidate)
        self.roles = [ours for _, ours in roles]
        # A fused graph and a pair of plain ones: each reads texts, and only so they are compared.
        mixed = any(theirs != ours for theirs, ours in roles)
        self.graphs: list[dict[Side, SplitGraph]] = [
            {
                "reference": SplitGraph(reference[theirs], threads=threads, coarse=mixed),
                "candidate": SplitGraph(candidate[ours], threads=threads, coarse=mixed),
            }
            for theirs, ours in roles
        ]
        for graphs in self.graphs:
            _check_alike(graphs["reference"], graphs["candidate"], any_length=mixed)

    @property
    def room(self) -> int | None:
        """Tokens that both graphs read at once; None if they take any number."""
        limits = [limit for split in self.graphs[0].values() if (limit := read_limit(split.model.graph)) is not None]
        return min(limits, default=None)

    def fit(self, text: Text) -> Text | None:
        """As much of a text as both graphs read at once; None if its prompt alone is longer."""
        room = len(text.tokens) if self.room is None else min(self.room, len(text.tokens))
        return None if len(text.prompt) > room else Text(text.prompt, text.answer[: room - len(text.prompt)])

    def bases(self, text: Text) -> Iterator[Base]:
        """The runs of a text: read whole; then, where another graph adds tokens, some of its tokens one at a time."""
        tokens = text.tokens
        # A graph of fixed length is filled up with text; one of any length then reads the same.
        filled = np.resize(tokens, self.room or len(tokens)).tolist()
        first = len(text.prompt) - 1 if text.answer else len(tokens) // 2
        mixture = Mixture(self.graphs[0], {side: read_feed(one, filled) for side, one in self.graphs[0].items()})
        read = Base(mixture, {side: mixture.whole(side) for side in self.graphs[0]}, slice(first, len(tokens)))
        yield read
        for graphs in self.graphs[1:]:
            for position in _some(range(max(1, first + 1), len(tokens)), STEPS):
                feeds = {side: step_feed(one, tokens[position], position) for side, one in graphs.items()}
                step = Mixture(graphs, feeds)
                values = {
                    side: step.whole(side, past_of(one.model.graph, read.values[side], position))
                    for side, one in graphs.items()
                }
                yield Base(step, values, slice(0, 1), position)

    def past(self, base: Base, side: Side, read: Values, before: Values) -> dict[str, npt.NDArray[Any]]:
        """The cache entries of a step that a mixture changed when it read the text."""
        if base.tokens is None:
            return {}
        changed = {name: array for name, array in read.items() if array is not before[name]}
        return past_of(base.mixture.graphs[side].model.graph, changed, base.tokens)


def _roles(reference: Files, candidate: Files) -> Sequence[tuple[str, str]]:
    """The graphs that are held against each other, the reference's role first."""
    for roles in (("decoder",), ("prefill", "decode")):
        if set(roles) <= set(reference) and set(roles) <= set(candidate):
            return [(role, role) for role in roles]
    read = [next((role for role in ("decoder", "prefill") if role in files), None) for files in (reference, candidate)]
    if read[0] is None or read[1] is None:
        raise InputError(
            f"the {'candidate' if read[0] else 'reference'} has no graph of a decoder", where="attribution",
            remedy="attribute bundles of language models that run on onnxruntime",
        )  # fmt: skip
    return [(read[0], read[1])]


def _check_alike(ours: SplitGraph, theirs: SplitGraph, *, any_length: bool) -> None:
    layers = layer_count(ours.parts), layer_count(theirs.parts)
    if layers[0] != layers[1]:
        raise InputError(
            f"it has {layers[1]} layers, the reference {layers[0]}", where=str(theirs.path),
            remedy="compare a model with what was built from it",
        )  # fmt: skip
    ends = [(read_limit(one.model.graph), context_of(one.model.graph)) for one in (ours, theirs)]
    if ends[0] != ends[1] and not any_length:
        raise InputError(
            "its graphs are of other lengths than the reference's", where=str(theirs.path),
            remedy="build both with the same --context",
        )  # fmt: skip
    if list(ours.parts) != list(theirs.parts):
        raise InputError(
            "its layers are made of other parts than the reference's", where=str(theirs.path),
            remedy="build both for the same target with the same version of chipwise",
        )  # fmt: skip


def _some(places: Sequence[int], count: int) -> Sequence[int]:
    """Some of the places, evenly spread, the first among them."""
    every = max(1, -(-len(places) // count))
    return places[::every]
