"""Caveats: what a verdict does not say, for its reader to see beside it."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.report.html_format import DIMENSIONS
from chipwise.report.quality import Quality
from chipwise.report.report import Report
from chipwise.report.verdict import Verdict

FEW_CASES = 20
"""One case of fewer is more than 5 % of them: no threshold on shares means much."""


# Findings without which a passed gate reads as more than it is.
_TOLD = frozenset({"input_left_out", "output_left_out", "rknn_nothing_on_npu"})

USUAL_CERTAINTY = 0.95
"""What a gate asks of a verdict unless the user lowers it."""


def caveats(report: Report) -> tuple[str, ...]:
    """Sentences that belong beside the verdict; none where it says all it seems to say."""
    return tuple(_caveats(report))


def _caveats(report: Report) -> Iterator[str]:
    if report.emulates:
        yield f"Emulated: {report.emulates}'s arithmetic was computed on this machine, nothing ran on the chip."
        yield _trust(report)
    yield from (f"{one.message[:1].upper()}{one.message[1:]}." for one in report.findings if one.rule in _TOLD)
    quality = report.quality
    if quality is None:
        yield from _few(report.samples or 0, "sample")
        return
    if report.reference_precision:
        yield (
            f"The reference itself is stored in {report.reference_precision}: what it had lost before shows nowhere "
            "here. Compare with an fp32 bundle to see all."
        )
    if report.certainty is not None and report.certainty < USUAL_CERTAINTY:
        sure = f"only {report.certainty:.0%} sure" if report.certainty else "as measured, however few the cases"
        set_to = f"certainty was set to {report.certainty:g}, usual is {USUAL_CERTAINTY:g}"
        yield f"Verdicts on dimensions are {sure}: {set_to}."
    yield from _of_dimensions(report, quality)
    if quality.cases and not quality.matrix:
        what = "Drift only: your" if quality.answer else "Your"
        yield f"{what} task was not scored; give --suite with cases that say what is right."
    unclear = [verdict for verdict in report.verdicts if verdict.outcome == "unclear"]
    if unclear:
        more = [verdict.more_cases for verdict in unclear if verdict.more_cases]
        need = f"; about {max(more)} more of each would do" if more else ""
        yield f"Not enough cases to be sure of {len(unclear)} of the gates{need}."
    yield from _few(len(quality.cases), "case")


def _of_dimensions(report: Report, quality: Quality) -> Iterator[str]:
    """What a verdict on a dimension leaves unsaid: a reference that cannot do it, an interval that reaches beyond."""
    certainty = USUAL_CERTAINTY if report.certainty is None else report.certainty
    for row in quality.matrix:
        metric, label, _ = DIMENSIONS[row.dimension]
        if row.label != "all":
            continue
        alone = row.reference is None
        failed = any(one.metric == f"{metric}_reference" and one.outcome == "fail" for one in report.verdicts)
        if row.reference is not None and 2 * row.reference < row.scored and not failed:
            yield f"{label}: the reference has {row.reference} of {row.scored} right, so there was little to lose."
        wanted = metric if alone else f"{metric}_drop"
        verdict = next((one for one in report.verdicts if one.metric == wanted), None)
        # Where the measured value decides, nothing is ruled out.
        if verdict is None or verdict.outcome != "pass" or not 0 < verdict.threshold < 1 or certainty < USUAL_CERTAINTY:
            continue
        if alone and row.candidate_share[0] < verdict.threshold:
            yield _one_sided(
                label, "a share below", verdict, "%", certainty, f"from {100 * row.candidate_share[0]:.1f} %"
            )
        if row.loss is not None and row.loss[1] > verdict.threshold:
            yield _one_sided(
                label, "a loss of more than", verdict, "points", certainty, f"up to {100 * row.loss[1]:.1f}"
            )


def _one_sided(label: str, what: str, verdict: Verdict, unit: str, certainty: float, reach: str) -> str:
    ruled_out = f"{what} {100 * verdict.threshold:g} {unit} is ruled out at {certainty:.0%}, one-sided"
    return f"{label}: {ruled_out}; the interval shown is two-sided and wider, {reach}."


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
