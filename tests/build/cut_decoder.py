"""A few layers and a part of the vocabulary of a real model: its outlier channels at a tenth of its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chipwise.build.options import BuildOptions
from chipwise.build.texts import gather_texts
from chipwise.model.model import Model
from chipwise.model.weights import WeightInfo, WeightSource


class CutWeights:
    """A ``WeightSource`` of some layers of another, with the first rows of its embedding.

    Args:
        source: The weights.
        layers: Which layers are kept, in order.
        vocab: How many tokens.
    """

    def __init__(self, source: WeightSource, layers: Sequence[int], vocab: int) -> None:
        self._source, self._layers, self._vocab = source, layers, vocab

    def names(self) -> Iterator[str]:
        """Those of the kept layers, counted anew."""
        for name in self._source.names():
            if name.startswith("model.layers."):
                number, rest = name.removeprefix("model.layers.").split(".", 1)
                if int(number) in self._layers:
                    yield f"model.layers.{self._layers.index(int(number))}.{rest}"
            else:
                yield name

    def info(self, name: str) -> WeightInfo:
        shape = self._shape(name)
        return WeightInfo(name, shape, "F32", 4 * int(np.prod(shape)))

    def load(self, name: str) -> np.ndarray:
        shape = self._shape(name)
        if name == "model.embed_tokens.weight":
            return self._source.load_rows(name, 0, shape[0])
        return self._source.load(self._there(name))

    def load_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self._source.load_rows(self._there(name), start, min(stop, self._shape(name)[0]))

    def __contains__(self, name: object) -> bool:
        return name in set(self.names())

    def _there(self, name: str) -> str:
        if not name.startswith("model.layers."):
            return name
        number, rest = name.removeprefix("model.layers.").split(".", 1)
        return f"model.layers.{self._layers[int(number)]}.{rest}"

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self._source.info(self._there(name)).shape
        return (min(self._vocab, shape[0]), *shape[1:]) if name == "model.embed_tokens.weight" else shape


def cut_texts(model: Model, vocab: int, longest: int = 64) -> list[list[int]]:
    """The general queries in the model's template, without the tokens that are cut off."""
    assert model.tokenizer is not None
    options = BuildOptions(model.source.name, "rk3588", "unused")  # type: ignore[arg-type]
    found = gather_texts(options, model.tokenizer, model.chat_template, 512)
    whole = [*found.calibration, *(prompt.tokens for prompt in found.prompts)]
    return [[token for token in tokens if token < vocab][:longest] for tokens in whole]
