"""Summary: what a reader who has one minute wants of a report. Ship it or not, how sure, what broke, at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chipwise.report.caveats import USUAL_CERTAINTY
from chipwise.report.html_format import DIMENSIONS, duration, metric_value, metric_words, number, percent, size
from chipwise.report.quality import DimensionScore, Quality
from chipwise.report.report import Report
from chipwise.report.tried import TriedRecipe
from chipwise.report.verdict import Verdict

Tone = Literal["pass", "fail", "none"]


@dataclass(frozen=True)
class Answer:
    """One answer at the top of the page.

    Attributes:
        question: What it answers.
        answer: In a few words.
        detail: One sentence more.
    """

    question: str
    answer: str
    detail: str


@dataclass(frozen=True)
class Summary:
    """The first screen.

    Attributes:
        word: What to do, in a few words.
        tone: Which colours it has.
        answers: How sure, what broke, what it costs.
    """

    word: str
    tone: Tone
    answers: tuple[Answer, ...]


def summarise_report(report: Report) -> Summary:
    """The first screen of a report."""
    word, tone = _word(report)
    answers = [_sure(report)]
    if report.quality and report.quality.cases:
        answers.append(_broke(report.quality))
    cost = _cost(report)
    return Summary(word, tone, (*answers, *([cost] if cost else [])))


def _word(report: Report) -> tuple[str, Tone]:
    failed = [verdict for verdict in report.verdicts if verdict.outcome == "fail"]
    if failed and _only_the_reference(failed):
        return "The suite cannot tell", "none"
    if failed:
        return "Do not ship it", "fail"
    if report.outcome == "unclear":
        return "Not sure yet", "none"
    if report.outcome == "not judged":
        return "Not judged", "none"
    if report.emulates:
        return "Holds in emulation", "pass"
    if report.quality is None or not report.quality.matrix:
        return "Holds, your task untested", "pass"
    if report.certainty is not None and report.certainty < USUAL_CERTAINTY:
        return "Holds, less sure than usual", "pass"
    return "Ship it", "pass"


def _sure(report: Report) -> Answer:
    question = "How sure?"
    unclear = [verdict for verdict in report.verdicts if verdict.outcome == "unclear"]
    failed = [verdict for verdict in report.verdicts if verdict.outcome == "fail"]
    rows = [row for row in report.quality.matrix if row.label == "all"] if report.quality else []
    ran = _ran(report)
    if failed:
        return _sure_it_fails(failed, ran)
    if unclear:
        need = max((verdict.more_cases or 0 for verdict in unclear), default=0)
        more = f"about {need:,} more cases of each would do" if need else "more cases are needed"
        names = ", ".join(metric_words(verdict.metric).label.removesuffix(" lost").lower() for verdict in unclear)
        return Answer(question, "Not yet", f"Too few cases of {names}: {more}; {ran}.")
    if not report.verdicts:
        return Answer(question, "Nothing was held against a limit", f"{ran[:1].upper()}{ran[1:]}.")
    worst = max(rows, key=lambda row: row.loss[1] if row.loss else -1.0, default=None)
    if worst is not None and worst.loss is not None:
        most = f"{100 * max(0.0, worst.loss[1]):.1f}".removesuffix(".0")
        label = DIMENSIONS[worst.dimension][1].lower()
        return Answer(
            question,
            "95 %",
            f"A loss of more than {most} points in any dimension is ruled out (the widest: {label}); {ran}.",
        )
    lowest = min(rows, key=lambda row: row.candidate_share[0], default=None)
    if lowest is not None:
        return Answer(
            question, "95 %", f"At least {percent(lowest.candidate_share[0])} right in every dimension; {ran}."
        )
    return Answer(question, "Of what was measured", f"All {len(report.verdicts)} limits hold; {ran}.")


def _sure_it_fails(failed: Sequence[Verdict], ran: str) -> Answer:
    question, first = "How sure?", failed[0]
    said = f"{metric_words(first.metric).label} {metric_value(first.metric, first.value)}"
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    if _only_the_reference(failed):
        return Answer(question, "Not at all", f"The model as it was fails it, too: {said}{more}; {ran}.")
    if first.metric.endswith("_drop"):
        return Answer(question, "95 %", f"{said}{more}: chance is ruled out, one-sided; {ran}.")
    return Answer(question, "As measured", f"{said}{more}, over all that was compared; {ran}.")


def _only_the_reference(failed: Sequence[Verdict]) -> bool:
    """Whether nothing failed but the model as it was, of which the candidate is not to blame."""
    return all(verdict.metric.endswith("_reference") for verdict in failed)


def _ran(report: Report) -> str:
    if report.quality is None:
        return f"{report.samples:,} samples ran" if report.samples else "no case ran"
    n = len(report.quality.cases)
    return f"{n:,} case{'' if n == 1 else 's'} ran"


def _broke(quality: Quality) -> Answer:
    question = "What broke?"
    rows = [row for row in quality.matrix if row.label == "all"]
    if not rows:
        if quality.answer is None:
            return Answer(question, "Unknown", "No case says what is right, and no reference ran.")
        return Answer(
            question, f"{quality.answers_changed:,} answers changed",
            f"Of {len(quality.cases):,}; whether for the worse, no case says.",
        )  # fmt: skip
    changed = f"{quality.answers_changed:,} changed their words" if quality.answers_changed else "no answer changed"
    if all(row.reference is None for row in rows):
        wrong, scored = sum(row.scored - row.candidate for row in rows), sum(row.scored for row in rows)
        detail = f"Of {scored:,} scored{_where(rows)}; no reference ran to say what was lost."
        return Answer(question, f"{wrong:,} wrong" if wrong else "Nothing is wrong", detail)
    broke, fixed = sum(row.broke for row in rows), sum(row.fixed for row in rows)
    mended = f"{fixed:,} went the other way; " if fixed else ""
    if not broke:
        return Answer(question, "Nothing", f"No answer that was right became wrong; {mended}{changed}.")
    answers = f"{broke:,} answer{'' if broke == 1 else 's'}"
    return Answer(question, answers, f"Right before and wrong now{_where(rows)}; {mended}{changed}.")


def _where(rows: Sequence[DimensionScore]) -> str:
    alone = all(row.reference is None for row in rows)
    counts = {DIMENSIONS[row.dimension][1].lower(): row.scored - row.candidate if alone else row.broke for row in rows}
    named = [f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]) if count]
    return f" ({', '.join(named)})" if named else ""


def _cost(report: Report) -> Answer | None:
    before, after = sum(s.bytes_before for s in report.schemes), sum(s.bytes_after for s in report.schemes)
    kept = next((one for one in report.tried if one.kept), None)
    reference = next((one for one in report.tried if one.reference and one is not kept), None)
    if not after and kept and kept.size_bytes:
        after, before = kept.size_bytes, (reference.size_bytes or 0) if reference else 0
    speed = _speed(kept, reference)
    if not after and not speed:
        return None
    smaller = _smaller(before, after) if after and before else size(after) if after else speed
    details = []
    if after:
        details.append(f"{size(after)}" + (f" instead of {size(before)}" if before else ""))
    if speed and smaller != speed:
        details.append(speed)
    return Answer("What is gained?", smaller, f"{'; '.join(details)}." if details else "")


def _smaller(before: int, after: int) -> str:
    if abs(before - after) < 0.005 * before:
        return "Nothing in size"
    return f"{before / after:.1f}× smaller" if after < before else f"Nothing: {after / before:.1f}× as large"


def _speed(kept: TriedRecipe | None, reference: TriedRecipe | None) -> str:
    if kept is None or not kept.decode_tokens_per_s:
        return ""
    beside = ""
    if reference and reference.decode_tokens_per_s:
        apart = abs(kept.decode_tokens_per_s - reference.decode_tokens_per_s)
        spread = (kept.decode_spread_tokens_per_s or 0) + (reference.decode_spread_tokens_per_s or 0)
        ratio = f"{kept.decode_tokens_per_s / reference.decode_tokens_per_s:.2f}×"
        said = ratio if apart > spread else "no difference beyond the spread of the runs"
        if reference.timed_earlier:
            said = "measured in an earlier run"
        beside = f" instead of {_rate(reference)} ({said})"
    token = duration(1 / kept.decode_tokens_per_s)
    return f"{_rate(kept)} tokens a second{beside}, {token} each"


def _rate(one: TriedRecipe) -> str:
    spread = f" ± {number(one.decode_spread_tokens_per_s, 2)}" if one.decode_spread_tokens_per_s else ""
    return f"{number(one.decode_tokens_per_s)}{spread}"
