"""Speed: how fast a session reads and answers, measured where it was verified."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from chipwise.engine import Batch, Session
from chipwise.report import Measurement
from chipwise.verify.generate import CHUNK_TOKENS, feed

READ_TOKENS = 64
"""Tokens of the prompt that is read, if the context takes them."""

DECODE_TOKENS = 12
"""Tokens that are answered."""

ROUNDS = 4
"""Rounds; the first warms up and is not counted."""


@dataclass(frozen=True)
class Speed:
    """What was measured of a session.

    Attributes:
        prefill: Tokens of a prompt read a second.
        decode: Tokens a second of one conversation, one row a step.
    """

    prefill: Measurement
    decode: Measurement

    def to_dict(self) -> dict[str, Any]:
        """What ``from_dict`` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> Speed | None:
        """The speed that ``to_dict`` wrote; None of None."""
        return cls(Measurement(**fields["prefill"]), Measurement(**fields["decode"])) if fields else None


def measure_speed(session: Session, hardware: str, *, clock: Callable[[], float] = time.perf_counter) -> Speed | None:
    """Measure a session in slot 0, whose content is lost.

    Args:
        session: The session.
        hardware: The machine, for the measurement.
        clock: Seconds.

    Returns:
        The speed; None if the context is too short to measure one.

    Raises:
        EngineError: The runtime failed.
    """
    read = min(READ_TOKENS, session.max_context - DECODE_TOKENS)
    if read < 1:
        return None
    tokens = np.random.default_rng(0).integers(0, session.vocab_size, read).tolist()
    chunk = min(CHUNK_TOKENS, session.max_step_tokens)
    prefills, decodes = [], []
    for _ in range(ROUNDS):
        start = clock()
        for _logits in feed(session, 0, tokens, chunk_tokens=chunk, logits="last"):
            pass
        between = clock()
        for i in range(DECODE_TOKENS):
            session.step(Batch(0, np.array([[tokens[0]]], np.int64), np.array([read + i], np.int64)))
        prefills.append(read / max(between - start, 1e-9))
        decodes.append(DECODE_TOKENS / max(clock() - between, 1e-9))
    return Speed(_measured("prefill", prefills[1:], hardware), _measured("decode", decodes[1:], hardware))


def _measured(name: str, rates: list[float], hardware: str) -> Measurement:
    spread = (max(rates) - min(rates)) / 2
    return Measurement(name, statistics.median(rates), "tok/s", len(rates), spread, "measured", hardware)
