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

# A decode step reads the whole cache, so that many steps of one text tell little more than a few.
_STEPS_A_TEXT = 2


class _Recorder:
    """A DecoderRunner that keeps what it is fed."""

    def __init__(self, runner: DecoderRunner) -> None:
        self._runner = runner
        self.feeds: list[Feed] = []

    @property
    def info(self) -> DecoderInfo:
        return self._runner.info

    def run(self, feeds: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[Any]]:
        self.feeds.append({name: np.array(feeds[name]) for name in self.info.inputs})
        return self._runner.run(feeds)

    def close(self) -> None:
        self._runner.close()


def decode_feeds(
    prefill: DecoderRunner, decode: DecoderRunner, texts: Sequence[Sequence[int]], *, context: int, at_most: int
) -> list[Feed]:
    """The inputs of decode when texts are read: the beginning through prefill, the last tokens one by one.

    Args:
        prefill: The static prefill graph.
        decode: The static decode graph of one token.
        texts: Token ids; those of one token say nothing of decode.
        context: Tokens that the cache holds.
        at_most: Samples to keep.

    Raises:
        EngineError: A graph fails.
    """
    kept = _Recorder(decode)
    session = PortableSession(prefill, kept, n_slots=1, max_context=context, mask=Mask(None, None))
    for text in texts:
        ids = np.array([text[:context]], np.int64)
        read = max(1, min(ids.shape[1] - _STEPS_A_TEXT, session.max_step_tokens))
        session.step(Batch(0, ids[:, :read], np.zeros(1, np.int64)))
        for place in range(read, min(read + _STEPS_A_TEXT, ids.shape[1])):
            session.step(Batch(0, ids[:, place : place + 1], np.array([place])))
        if len(kept.feeds) >= at_most:
            break
    return kept.feeds[:at_most]
