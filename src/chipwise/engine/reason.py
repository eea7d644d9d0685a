"""Reason: why a vendor's runtime failed, found in what it printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """What is wrong, and what to do about it.

    Attributes:
        what: What is wrong.
        remedy: What to do; None if that is not known.
    """

    what: str
    remedy: str | None
