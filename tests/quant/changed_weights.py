"""What the tests of changed weights share: the logits of a decoder whatever its weights, and weights with outliers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from chipwise.model.config import DecoderConfig
from chipwise.model.decoder import GraphSpec, build_decoder
from chipwise.model.importer import load_model
from chipwise.model.weights import WeightInfo, WeightSource
from chipwise.rewrite.decoder_feeds import prompt_feed
from chipwise.rewrite.edit import inline_functions
from tests.model.decoder.random_models import write_folder
from tests.quant.small_graphs import infer_types, run

PROMPTS = [[5, 9, 4, 7, 33, 12, 40, 8, 21], [3, 18, 55, 4, 4, 29], [50, 44, 31, 27, 6, 11, 19, 58]]


def read_case(case: str, folder: Path) -> tuple[DecoderConfig, WeightSource]:
    """The architecture and the weights of a case of ``random_models``."""
    model = load_model(write_folder(case, folder))
    assert isinstance(model.config, DecoderConfig)
    assert model.weights is not None
    return model.config, model.weights


def dynamic_graph(config: DecoderConfig, weights: WeightSource) -> ir.Model:
    """The graph of symbolic shapes, functions inlined, as a chip's build looks at it."""
    model = build_decoder(config, weights, GraphSpec("prefill", 64))
    inline_functions(model)
    infer_types(model)
    return model


def feeds_of(model: ir.Model, config: DecoderConfig, prompts: Sequence[Sequence[int]] = PROMPTS) -> list[dict]:
    """The inputs of a graph for each prompt."""
    return [prompt_feed(model.graph, prompt, window=config.sliding_window) for prompt in prompts]


def logits_of(config: DecoderConfig, weights: WeightSource, prompt: Sequence[int] = PROMPTS[0]) -> np.ndarray:
    """The logits of every token of a prompt."""
    model = dynamic_graph(config, weights)
    return run(model, feeds_of(model, config, [prompt])[0])["logits"]


class Planted:
    """A ``WeightSource`` with some of its weights changed.

    Args:
        source: The weights.
        changes: By the end of a weight's name, what becomes of it.
    """

    def __init__(self, source: WeightSource, changes: dict[str, Callable[[np.ndarray], np.ndarray]]) -> None:
        self._source, self._changes = source, changes

    def names(self) -> Iterator[str]:
        return self._source.names()

    def info(self, name: str) -> WeightInfo:
        return self._source.info(name)

    def load(self, name: str) -> np.ndarray:
        found = self._source.load(name)
        for end, change in self._changes.items():
            if name.endswith(end):
                found = change(found.copy()).astype(np.float32)
        return found

    def load_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self.load(name)[start:stop]

    def __contains__(self, name: object) -> bool:
        return name in self._source


def scaled(index: int | list[int], factor: float, axis: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """A change that makes some rows (axis 0) or columns (axis 1) of a matrix larger."""

    def change(matrix: np.ndarray) -> np.ndarray:
        matrix[(slice(None),) * axis + (index,)] *= factor
        return matrix

    return change
