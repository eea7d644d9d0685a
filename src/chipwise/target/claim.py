"""Claim: what is widely repeated about a chip, and what its vendor's documents say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chipwise.target.provenance import Provenance

Topic = Literal["granularity", "bandwidth", "memory", "scheme", "cpu", "devices", "dtype", "operators"]


@dataclass(frozen=True)
class Claim:
    """A claim held against the documents, so that the product can say so when a user relies on it.

    Attributes:
        claim: The claim as it is repeated.
        verdict: What the documents make of it.
        truth: What holds instead.
        topic: What it is about, for rules to find it by.
        provenance: The document that decides.
    """

    claim: str
    verdict: Literal["false", "partly true", "true"]
    truth: str
    topic: Topic
    provenance: Provenance
