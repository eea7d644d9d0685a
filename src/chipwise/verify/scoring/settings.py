"""ScorerSettings: what a suite says of how its cases are scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chipwise.verify.scoring.entity import LITERAL
from chipwise.verify.scoring.tool_call import CallRules

DIMENSIONS = ("keyword", "logic", "long_range", "noise")
"""Keyword fidelity, logical consistency, long-range dependency, noise robustness."""

ENTITY_TYPES = ("id", "time", "number", "quoted")
"""Kinds of entities that the keywords of an expected answer are taken from."""


@dataclass(frozen=True)
class ScorerSettings:
    """How cases are scored.

    Attributes:
        dimensions: The dimensions the suite has.
        same: What is taken as the same in keywords and facts, a dimension; see ``entity.NORMALISATIONS``.
        types: Which entities of an expected answer are keywords.
        calls: How tool calls are compared.
        fact_within: The share of a record within whose beginning a fact must stand.
    """

    dimensions: tuple[str, ...] = DIMENSIONS
    same: Mapping[str, frozenset[str]] = field(default_factory=dict)
    types: frozenset[str] = frozenset(ENTITY_TYPES)
    calls: CallRules = field(default_factory=CallRules)
    fact_within: float = 0.5

    def same_in(self, dimension: str) -> frozenset[str]:
        """What a dimension takes as the same."""
        return self.same.get(dimension, LITERAL)
