"""Caveats: what a verdict does not say, for its reader to see beside it."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.report.report import Report

FEW_CASES = 20
"""One case of fewer is more than 5 % of them: no threshold on shares means much."""


def caveats(report: Report) -> tuple[str, ...]:
    """Sentences that belong beside the verdict; none where it says all it seems to say."""
    return tuple(_caveats(report))


def _caveats(report: Report) -> Iterator[str]:
    if report.emulates:
        yield f"Emulated: {report.emulates}'s arithmetic was computed on this machine, nothing ran on the chip."
        yield _trust(report)
    quality = report.quality
    if quality is None:
        yield from _few(report.samples or 0, "sample")
        return
    if quality.cases and not quality.matrix:
        what = "Drift only: your" if quality.answer else "Your"
        yield f"{what} task was not scored; give --suite with cases that say what is right."
    unclear = [verdict for verdict in report.verdicts if verdict.outcome == "unclear"]
    if unclear:
        more = [verdict.more_cases for verdict in unclear if verdict.more_cases]
        need = f"; about {max(more)} more of each would do" if more else ""
        yield f"Not enough cases to be sure of {len(unclear)} of the gates{need}."
    yield from _few(len(quality.cases), "case")


def _trust(report: Report) -> str:
    """How far emulation was from a simulator, where one was beside it."""
    cosines = [figure for figure in report.emulation if figure.measure == "channel_cosine"]
    if not cosines:
        return "How far emulation is from it was not measured: that was done for Rockchip's chips only."
    worst = max(cosines, key=lambda figure: figure.optimism)
    read = (
        f"emulated {worst.emulated:.4f}, simulated {worst.simulated:.4f}: {worst.model} on {worst.chip}, {worst.source}"
    )
    if worst.optimism <= 0:
        return f"On no model measured in {worst.scheme} did it look better than the vendor's simulator ({read})."
    return (
        f"In {worst.scheme} it looked better than the vendor's simulator by up to {worst.optimism:.4f} of a mean "
        f"channel cosine ({read})."
    )


def _few(n: int, what: str) -> Iterator[str]:
    # None at all is for the gate to say.
    if 0 < n < FEW_CASES:
        yield f"Only {n} {what}{' was' if n == 1 else 's were'} verified: so few prove little."
