"""What to try next: from the gate's verdicts, the remedies of findings, and the recipes that were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chipwise.report.html_format import DIMENSIONS, metric_value, metric_words, size
from chipwise.report.report import Report
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import Verdict

MAX_STEPS = 6
"""More than a reader would do; those that come first matter most."""

_LABELS = {metric: label for metric, label, _ in DIMENSIONS.values()}
_WIDER = {"w4a16_g64": "w4a16", "w4a16": "w8a16", "w8a8": "w8a16", "w4a8": "w8a8", "w8a16": "fp32"}
_DRIFT = frozenset(
    {
        "kl_mean_nats",
        "top1_agreement",
        "perplexity_ratio",
        "channel_cosine",
        "output_cosine",
        "values_equal",
        "gain_error",
    }
)


@dataclass(frozen=True)
class NextStep:
    """One thing to do.

    Attributes:
        what: It, in one sentence that begins with a verb.
        why: What was seen that asks for it.
    """

    what: str
    why: str


def next_steps(report: Report) -> tuple[NextStep, ...]:
    """What to do now, the most urgent first; each once."""
    steps = [
        *_unsound(report),
        *_lost(report),
        *_remedies(report),
        *_unsure(report),
        *_unknown(report),
        *_smaller(report),
    ]
    return tuple({step.what: step for step in steps}.values())[:MAX_STEPS]


def _unsound(report: Report) -> Iterator[NextStep]:
    """Faults that make every other figure worth nothing."""
    for verdict in _failed(report):
        why = f"{metric_words(verdict.metric).label}: {metric_value(verdict.metric, verdict.value)}"
        if verdict.metric.startswith("self_check_"):
            side = "reference" if "reference" in verdict.metric else "candidate"
            yield NextStep(
                f"Find out why the {side} disagrees with itself before trusting any other figure: run it with "
                "--threads 1 and, if that does not help, in another version of its runtime.",
                why,
            )
        elif verdict.metric in ("cases_nonfinite", "samples_nonfinite"):
            yield NextStep("Take a recipe with 16-bit activations: a value left the range that its type holds.", why)
        elif verdict.metric == "cases_not_run":
            yield NextStep("Build with a larger --context, or shorten the cases that do not fit.", why)
        elif verdict.metric.endswith("_reference"):
            label = metric_words(verdict.metric).label.removesuffix(", reference")
            yield NextStep(
                f"Correct the suite's cases of {label.lower()}, or train the model for them: the model as it was fails "
                "them too, so they cannot show what was lost.",
                why,
            )


def _lost(report: Report) -> Iterator[NextStep]:
    """A recipe that keeps more, where too much was lost."""
    lost = [v for v in _failed(report) if v.metric.endswith("_drop") or v.metric in _DRIFT or v.metric in _LABELS]
    if not lost:
        return
    why = "; ".join(f"{metric_words(v.metric).label} {metric_value(v.metric, v.value)}" for v in lost[:3])
    passed = [one for one in report.tried if one.outcome == "pass" and not one.kept]
    if passed:
        best = min(passed, key=lambda one: one.size_bytes or 0)
        yield NextStep(f"Take {best.recipe}: it passed on the same cases{_at(best)}.", why)
    elif wider := _wider(report):
        yield NextStep(f"Try a recipe that keeps more: --recipe {wider}.", why)
    if any(v.metric.endswith("_drop") for v in lost) and report.quality and report.quality.matrix:
        row = max((row for row in report.quality.matrix if row.label != "all"), key=lambda row: row.broke, default=None)
        if row is not None and row.broke:
            yield NextStep(
                f"Calibrate with more queries like those of {row.label} ({DIMENSIONS[row.dimension][1].lower()}): give "
                "them with --queries.",
                f"{row.broke} of the {row.scored} cases there broke",
            )


def _at(tried: TriedRecipe) -> str:
    return f", at {size(tried.size_bytes)}" if tried.size_bytes else ""


def _wider(report: Report) -> str | None:
    name = report.recipe
    known = next((one for one in sorted(_WIDER, key=len, reverse=True) if name.startswith(one)), None)
    wider = _WIDER.get(known or "")
    while wider and any(one.recipe == wider and one.outcome == "fail" for one in report.tried):
        wider = _WIDER.get(wider)
    return wider


def _remedies(report: Report) -> Iterator[NextStep]:
    order = {"error": 0, "warning": 1}
    told = [finding for finding in report.findings if finding.severity in order and finding.remedy]
    for finding in sorted(told, key=lambda one: order[one.severity])[:3]:
        remedy = finding.remedy[:1].upper() + finding.remedy[1:].rstrip(".") + "."
        yield NextStep(remedy, f"{finding.where}: {finding.message}")


def _unsure(report: Report) -> Iterator[NextStep]:
    unclear = [verdict for verdict in report.verdicts if verdict.outcome == "unclear"]
    if not unclear:
        return
    names = [metric_words(verdict.metric).label.removesuffix(" lost").lower() for verdict in unclear]
    most = max((verdict.more_cases or 0 for verdict in unclear), default=0)
    more = f"about {most:,} more cases" if most else "more cases"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    each = " of each" if len(names) > 1 else ""
    yield NextStep(f"Add {more}{each} to the suite: {listed}.", "Too few of them ran to be sure either way")


def _unknown(report: Report) -> Iterator[NextStep]:
    if report.quality and not report.quality.matrix:
        yield NextStep("Give --suite with cases of your task that say what is right.", "Your task was not scored")
    if report.quality and report.quality.answer is None and not any(c.reference_answer for c in report.quality.cases):
        yield NextStep(
            "Compare with the model as it was: --reference with a bundle built by --recipe fp32.",
            "No reference ran, so nothing says what quantization cost",
        )
    if report.emulates:
        yield NextStep(
            f"Run `chipwise verify` of the bundle on a board with {report.emulates}.",
            "The chip's arithmetic was emulated on this machine",
        )


def _smaller(report: Report) -> Iterator[NextStep]:
    """A narrower recipe, where all is well and none was tried."""
    narrower = {wider: name for name, wider in _WIDER.items() if name.startswith("w4a16")}.get(report.recipe)
    if report.outcome == "pass" and narrower and not any(one.recipe == narrower for one in report.tried):
        yield NextStep(
            f"Try --recipe {narrower}, if size or speed matter more.", "This one passed, and a smaller was not tried"
        )


def _failed(report: Report) -> list[Verdict]:
    return [verdict for verdict in report.verdicts if verdict.outcome == "fail"]
