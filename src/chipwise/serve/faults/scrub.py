"""Scrubbing: a slot that holds NaN is overwritten, since a mask does not keep NaN out of a sum."""

from __future__ import annotations

import logging

import numpy as np

from chipwise.engine.session import Session, saves_slots
from chipwise.errors import EngineError

_logger = logging.getLogger(__name__)


def scrub(session: Session, slot: int, tokens: int) -> None:
    """Overwrite the KV of a slot's first tokens with zeros, where the session lets that be done.

    Attention over a buffer of fixed length multiplies values behind the end of a sequence by zero, and zero times NaN
    is NaN: whoever got the slot next would meet the fault of another request.

    Args:
        session: The session.
        slot: The slot.
        tokens: How many tokens were written to it.
    """
    if not saves_slots(session):
        return
    try:
        session.load_slot(slot, np.zeros_like(session.save_slot(slot, tokens)))
    except EngineError as e:
        _logger.warning("slot %d is not scrubbed: %s", slot, e)
