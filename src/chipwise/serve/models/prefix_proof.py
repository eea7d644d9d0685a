"""The proof that an engine's KV may be taken over from one slot to another, run once when a model is opened."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import numpy.typing as npt

from chipwise.bundle.self_test import Turn
from chipwise.engine.batch import Batch
from chipwise.engine.session import Session, whole_tokens

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# Small ids are in every vocabulary.
_LARGEST_ID = 200
# Kernels change their ways at powers of two, often at 64 tokens.
_PREFIX_TOKENS, _LEAST_PREFIX_TOKENS, _REST_TOKENS = 96, 24, 8


def reuses_exactly(session: Session, turn: Turn = nullcontext) -> bool:
    """Whether a copied beginning gives the same bits as computing it again.

    A prompt is fed whole; then its beginning alone, which is copied to another slot (if there is one), and the rest is
    fed there. Kernels that choose their order of sums by the number of rows fail this, and then nothing is reused.
    Takes two prompts of a hundred tokens, and leaves nothing of use in the slots.

    Args:
        session: The engine.
        turn: What each step runs in. Steps are as long as they are, since kernels go by the number of rows.

    Raises:
        EngineError: The engine failed.
    """
    prefix = max(_LEAST_PREFIX_TOKENS, min(_PREFIX_TOKENS, session.max_context - _REST_TOKENS))
    if (least := whole_tokens(session)) > 1:
        prefix = max(prefix, least)
    prompt: Ints = (np.arange(prefix + _REST_TOKENS, dtype=np.int64) * 7 + 3) % min(_LARGEST_ID, session.vocab_size)
    if len(prompt) > session.max_context:
        return False
    whole = _feed(session, 0, prompt, 0, turn)
    _feed(session, 0, prompt[:prefix], 0, turn)
    target = session.n_slots - 1
    if target:
        session.move_slot(0, target, prefix)
    return np.array_equal(whole, _feed(session, target, prompt[prefix:], prefix, turn))


def _feed(session: Session, slot: int, tokens: Ints, past: int, turn: Turn) -> Floats:
    logits = np.empty(0, np.float32)
    step = session.max_step_tokens
    for start in range(0, len(tokens), step):
        part = tokens[None, start : start + step]
        with turn():
            logits = session.step(Batch(slot, part, np.array([past + start], np.int64))).logits[0].copy()
    return logits
