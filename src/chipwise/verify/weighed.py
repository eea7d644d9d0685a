"""What a report weighs recipes by: a quality reduced to the figures of a TriedRecipe."""

from __future__ import annotations

from chipwise.report.quality import Quality
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import Outcome
from chipwise.verify.speed import Speed


def weighed(
    recipe: str,
    quality: Quality,
    *,
    size_bytes: int | None,
    speed: Speed | None,
    outcome: Outcome,
    kept: bool,
    said: str = "",
) -> TriedRecipe:
    """The row of a recipe that was verified.

    Args:
        recipe: Its name.
        quality: What was measured of it.
        size_bytes: Bytes of its weights.
        speed: How fast it was.
        outcome: What the gate says of it.
        kept: Whether the report is about it.
        said: The gate's words.
    """
    rows = [row for row in quality.matrix if row.label == "all"]
    scored = sum(row.scored for row in rows)
    compared = bool(rows) and all(row.reference is not None for row in rows)
    return TriedRecipe(
        recipe,
        size_bytes,
        speed.decode.value if speed else None,
        speed.prefill.value if speed else None,
        quality.answer.kl_mean_nats if quality.answer else None,
        sum(row.broke - row.fixed for row in rows) / scored if compared else None,
        sum(row.candidate for row in rows) / scored if scored else None,
        outcome,
        kept,
        said=said,
        decode_spread_tokens_per_s=speed.decode.spread if speed else None,
        prefill_spread_tokens_per_s=speed.prefill.spread if speed else None,
    )


def weighed_reference(
    recipe: str, quality: Quality, *, size_bytes: int | None, speed: Speed | None, earlier: bool = False
) -> TriedRecipe:
    """The reference's row, from the quality of a candidate that was compared with it.

    Args:
        recipe: Its name.
        quality: What was measured of the candidate.
        size_bytes: Bytes of its weights.
        speed: How fast it was.
        earlier: Whether that was in an earlier run.
    """
    rows = [row for row in quality.matrix if row.label == "all" and row.reference is not None]
    scored = sum(row.scored for row in rows)
    return TriedRecipe(
        recipe,
        size_bytes,
        speed.decode.value if speed else None,
        speed.prefill.value if speed else None,
        right=sum(row.reference or 0 for row in rows) / scored if scored else None,
        reference=True,
        decode_spread_tokens_per_s=speed.decode.spread if speed else None,
        prefill_spread_tokens_per_s=speed.prefill.spread if speed else None,
        timed_earlier=earlier,
    )
