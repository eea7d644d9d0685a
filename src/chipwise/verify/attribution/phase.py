"""Phase: one run of a decoder on a text, which reference, candidate and mixtures of both go through alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.engine.decoder_info import DecoderInfo
from chipwise.engine.mask import Mask
from chipwise.model.decoder import names
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.pass_ import Feed
from chipwise.verify.attribution.split_graph import SplitGraph, Values

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Text:
    """A prompt and its answer.

    Attributes:
        prompt: Token ids, at least one.
        answer: The reference's answer to it; drift is measured where its tokens are predicted.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """All of it."""
        return self.prompt + self.answer


def read_limit(graph: ir.Graph) -> int | None:
    """Tokens that a graph reads at once; None if it takes any number."""
    shape = next((value.shape for value in graph.inputs if value.name == names.INPUT_IDS), None)
    return shape[1] if shape is not None and isinstance(shape[1], int) else None


def read_feed(split: SplitGraph, tokens: Sequence[int]) -> Feed:
    """Inputs that let a graph read a text whole."""
    mask = _mask(split)
    value = mask.value
    return (
        prompt_feed(split.model.graph, tokens, window=mask.window)
        if value is None
        else prompt_feed(split.model.graph, tokens, mask_value=value, window=mask.window)
    )


def step_feed(split: SplitGraph, token: int, position: int) -> Feed:
    """Inputs that let a decode graph take one token behind ``position`` others; keys and values come with the past."""
    inputs = {str(value.name): value.shape for value in split.model.graph.inputs}
    places = np.arange(context_of(split.model.graph) or position)
    positions = np.array([[position]], np.int64)
    feeds: dict[str, npt.NDArray[np.generic]] = {
        names.INPUT_IDS: np.array([[token]], np.int64),
        names.POSITIONS: positions,
        names.OUTPUT_ROWS: np.zeros(1, np.int64),
    }
    cached = np.where(places < position, places, -1)[None]
    _mask(split).add_to(feeds, inputs, positions, np.concatenate([cached, positions], 1))
    return {name: array for name, array in feeds.items() if name in inputs}


def past_of(graph: ir.Graph, read: Values, tokens: int) -> dict[str, Array]:
    """The cache of the first tokens of a text, as the decode graph takes it, from what reading the text computed.

    Entries whose keys or values are not among what was read are left out.
    """
    length = context_of(graph) or tokens
    found = {}
    for value in graph.inputs:
        name = str(value.name)
        if not name.startswith("past."):
            continue
        present = read.get(f"present.{name.removeprefix('past.')}")
        if present is None:
            continue
        held = np.zeros((1, present.shape[1], length, present.shape[3]), np.float32)
        held[:, :, :tokens] = present[:, :, :tokens]
        found[name] = held
    return found


def context_of(graph: ir.Graph) -> int | None:
    """Tokens that a decode graph's cache holds; None if that is symbolic."""
    shape = next((value.shape for value in graph.inputs if value.name == names.past(0, "key")), None)
    return shape[2] if shape is not None and isinstance(shape[2], int) else None


def _mask(split: SplitGraph) -> Mask:
    shapes: Mapping[str, tuple[int | str | None, ...]] = {
        str(value.name): tuple(dim if isinstance(dim, int) else None for dim in value.shape or ())
        for value in split.model.graph.inputs
    }
    if not any(name.startswith(names.ATTENTION_BIAS) for name in shapes):
        return Mask()
    logits = {names.LOGITS: (None, 1)}
    return Mask().completed(DecoderInfo(split.path, shapes, logits, dict(split.model.metadata_props)))
