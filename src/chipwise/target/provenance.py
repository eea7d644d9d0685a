"""Provenance: where a fact about a chip comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SourceKind = Literal["vendor", "measured", "published", "assumed"]

_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")


@dataclass(frozen=True)
class Provenance:
    """The source of one fact.

    Attributes:
        kind: ``vendor`` (a document or source code of the maker, named), ``measured`` (how and where),
            ``published`` (a third party's figure), or ``assumed`` (why; not verified in a vendor's document).
        source: The document, the method, or the reason, in a few words.
        date: ``YYYY-MM`` or ``YYYY-MM-DD``: when it was measured, published, or else read.
    """

    kind: SourceKind
    source: str
    date: str

    def __post_init__(self) -> None:
        """Refuse an empty source or a date that is none."""
        if not self.source.strip():
            raise ValueError("source: is empty")
        if not _DATE.fullmatch(self.date):
            raise ValueError(f"date: expected YYYY-MM or YYYY-MM-DD, got {self.date!r}")

    @property
    def verified(self) -> bool:
        """Whether somebody vouches for the fact."""
        return self.kind != "assumed"

    def line(self) -> str:
        """One line of text: ``vendor: RK3588 TRM part 1, chapter 36 (2026-11)``."""
        return f"{self.kind}: {self.source} ({self.date})"
