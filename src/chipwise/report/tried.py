"""TriedRecipe: what one way to store a model costs and what is left of its quality, for a report to weigh."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.report.verdict import Outcome


@dataclass(frozen=True)
class TriedRecipe:
    """One recipe as it was measured. What is None was not measured.

    Attributes:
        recipe: Its name; the reference's is that of its precision.
        size_bytes: Bytes of its weights, or of its compiled files.
        decode_tokens_per_s: Tokens a second of one conversation.
        prefill_tokens_per_s: Tokens of a prompt read a second.
        kl_mean_nats: Mean KL divergence from the reference over answer tokens; None where tokens were not compared.
        lost: Share of the scored cases that the reference has right and it has not, less those the other way round.
        right: Share of the scored cases it has right.
        outcome: What the gate says of it; None for the reference, which is held against nothing.
        kept: Whether it is the one the report is about.
        reference: Whether it is the reference.
        said: The gate's words.
        decode_spread_tokens_per_s: Half of what lies between the fastest and the slowest round of decode.
        prefill_spread_tokens_per_s: The same of prefill.
        timed_earlier: Whether its speed is of another run, which the machine's load sets apart from the others.
    """

    recipe: str
    size_bytes: int | None = None
    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    kl_mean_nats: float | None = None
    lost: float | None = None
    right: float | None = None
    outcome: Outcome | None = None
    kept: bool = False
    reference: bool = False
    said: str = ""
    decode_spread_tokens_per_s: float | None = None
    prefill_spread_tokens_per_s: float | None = None
    timed_earlier: bool = False
