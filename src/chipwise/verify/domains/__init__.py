"""Generated cases of four agent domains, in English and Chinese."""

from __future__ import annotations

from chipwise.verify.domains.case import LANGUAGES, SPLITS, DomainCase, split_of
from chipwise.verify.domains.generator import DOMAINS, generate

__all__ = ["DOMAINS", "LANGUAGES", "SPLITS", "DomainCase", "generate", "split_of"]
