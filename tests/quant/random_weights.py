"""Weights drawn when they are asked for, for architectures of any size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from chipwise.model.config import DecoderConfig
from chipwise.model.importer.canonical_names import decoder_shapes
from chipwise.model.weights import WeightInfo


class RandomWeights:
    """A ``WeightSource`` whose numbers depend on the names alone."""

    def __init__(self, config: DecoderConfig) -> None:
        self._shapes = decoder_shapes(config)

    def names(self) -> Iterator[str]:
        return iter(self._shapes)

    def info(self, name: str) -> WeightInfo:
        shape = self._shapes[name]
        return WeightInfo(name, shape, "F32", int(np.prod(shape)) * 4)

    def load(self, name: str) -> np.ndarray:
        shape = self._shapes[name]
        drawn = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape)
        if name.endswith("norm.weight"):
            return (1 + 0.2 * drawn).astype(np.float32)
        return (drawn / np.sqrt(shape[-1])).astype(np.float32)

    def load_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self.load(name)[start:stop]

    def __contains__(self, name: object) -> bool:
        return name in self._shapes
