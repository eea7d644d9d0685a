"""Meter: one kind of source on a board, from the files it reads to the values they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chipwise.telemetry.reading import Reading
from chipwise.telemetry.tree import Text

Texts = Mapping[str, Text]
"""What the files said, by path."""


class Meter(Protocol):
    """Found once on a board, then asked at every sample. It reads nothing itself, so that one round reads all."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it needs at a sample."""
        ...

    def readings(self, texts: Texts) -> list[Reading]:
        """Their values; whatever cannot be known is there too, with the reason."""
        ...
