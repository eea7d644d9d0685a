"""Samples of a static decode graph's inputs: what an engine hands to it when it reads real texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine import Batch
from chipwise.engine.decoder_info import DecoderInfo
from chipwise.engine.decoder_runner import DecoderRunner
from chipwise.engine.mask import Mask
from chipwise.engine.portable import PortableSession
from chipwise.rewrite.pass_ import Feed


class _Recorder:
    """A DecoderRunner that keeps what it was fed last."""

    def __init__(self, runner: DecoderRunner) -> None:
        self._runner = runner
        self.last: Feed = {}

    @property
    def info(self) -> DecoderInfo:
        return self._runner.info

    def run(self, feeds: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[Any]]:
        self.last = {name: np.array(feeds[name]) for name in self.info.inputs}
        return self._runner.run(feeds)

    def close(self) -> None:
        self._runner.close()


def decode_feeds(
    prefill: DecoderRunner,
    decode: DecoderRunner,
    texts: Sequence[Sequence[int]],
    tokens: Sequence[tuple[int, int]],
    *,
    context: int,
) -> list[Feed]:
    """The inputs of decode at some tokens of texts, with all tokens before them in the cache.

    Args:
        prefill: The static prefill graph.
        decode: The static decode graph of one token.
        texts: Token ids.
        tokens: The text and the place of each token; a first token is never decoded, and none that the cache does not
            hold.
        context: Tokens that the cache holds.

    Raises:
        EngineError: A graph fails.
    """
    kept = _Recorder(decode)
    session = PortableSession(prefill, kept, n_slots=1, max_context=context, mask=Mask(None, None))
    found = []
    for text, place in tokens:
        if not 0 < place < context:
            continue
        ids = np.array([texts[text][: place + 1]], np.int64)
        width = session.max_step_tokens
        for start in range(0, place, width):
            session.step(Batch(0, ids[:, start : min(start + width, place)], np.array([start])))
        session.step(Batch(0, ids[:, place:], np.array([place])))
        found.append(kept.last)
    return found
