"""Numbers as people read them, and the words a report has for its metrics."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from markupsafe import Markup, escape

_CODE = re.compile(r"(`[^`]+`|--recipe [a-z0-9_]+|--threads \d+|--[a-z][a-z-]+)")

Style = Literal["nats", "share", "points", "ratio", "count"]


@dataclass(frozen=True)
class MetricWords:
    """What a report calls a metric.

    Attributes:
        label: Its name.
        meaning: One sentence for someone who does not know it.
        style: How its value is written.
        settable: Whether ``--gate NAME=VALUE`` sets its threshold.
    """

    label: str
    meaning: str
    style: Style
    settable: bool = True


DIMENSIONS = {
    "keyword": ("keyword_fidelity", "Keyword fidelity", "whose answer holds every required entity"),
    "logic": ("logical_consistency", "Logical consistency", "whose answer does what the rule and its values ask"),
    "long_range": ("long_range_recall", "Long-range recall", "whose answer holds the fact from the record's beginning"),
    "noise": ("noise_robustness", "Noise robustness", "whose answer is right in spite of noise in the input"),
}
"""The dimensions of a suite: what their share is called as a metric and by people, and which cases are right."""


def _dimension_words() -> dict[str, MetricWords]:
    words = {}
    for metric, label, right in DIMENSIONS.values():
        words[f"{metric}_drop"] = MetricWords(f"{label} lost", f"Cases {right}, less than before.", "points")
        words[metric] = MetricWords(label, f"Cases {right}.", "share")
        words[f"{metric}_reference"] = MetricWords(
            f"{label}, reference", "A suite that the reference fails cannot show what the candidate lost.", "share"
        )
    return words


METRICS = {
    "kl_mean_nats": MetricWords(
        "KL divergence", "How far the next-token probabilities moved, on average over answer tokens.", "nats"
    ),
    "top1_agreement": MetricWords(
        "Same next token", "Share of answer tokens that the candidate would choose as the reference did.", "share"
    ),
    "perplexity_ratio": MetricWords(
        "Perplexity ratio", "How much more the reference's own answers surprise the candidate.", "ratio"
    ),
    **_dimension_words(),
    "self_check_reference_nats": MetricWords(
        "Self-check, reference", "The reference against itself: at once, and token by token. The noise floor.", "nats"
    ),
    "self_check_candidate_nats": MetricWords(
        "Self-check, candidate", "The candidate against itself: at once, and token by token.", "nats"
    ),
    "cases_nonfinite": MetricWords("Cases with NaN or infinity", "Either side computed a value that is none.", "count"),
    "cases_not_run": MetricWords("Cases not run", "They do not fit the context.", "count"),
    "output_cosine": MetricWords(
        "Output cosine", "The worst output, taken as one vector, beside the float graph's on samples held out.", "count"
    ),
    "channel_cosine": MetricWords(
        "Channel cosine", "The same a channel at a time: what the cosine of the whole hides.", "count"
    ),
    "samples_nonfinite": MetricWords("Samples with NaN or infinity", "An output holds a value that is none.", "count"),
    "gain_error": MetricWords(
        "Gain error", "How far the factor by which the worst output follows the float graph's is from 1.", "share"
    ),
    "values_equal": MetricWords(
        "Integers equal", "Share of equal values in the worst output of indices or flags.", "share"
    ),
    "compiler_errors": MetricWords(
        "Compiler errors", "Findings for which the compiler's success is not believed.", "count", settable=False
    ),
    "sdi_mean": MetricWords(
        "Semantic drift", "How far the answers' meaning moved: 1 less the cosine of their embeddings.", "count"
    ),
    "certainty": MetricWords("Certainty", "How sure a verdict on a dimension must be.", "share"),
    "prompts_differ": MetricWords(
        "Prompts that differ",
        "Cases that the two sides' chat templates put in different tokens.",
        "count",
        settable=False,
    ),
    "cases_run": MetricWords("Cases run", "A gate that saw no case says nothing.", "count", settable=False),
}


def metric_words(metric: str) -> MetricWords:
    """The words for a metric; for one that is not known, its name."""
    return METRICS.get(metric) or MetricWords(metric.replace("_", " "), "", "count")


def metric_value(metric: str, value: float, *, limit: bool = False) -> str:
    """A metric's value with its unit; a limit as it was set, without digits it was not given."""
    style = metric_words(metric).style
    if not math.isfinite(value):
        return number(value)
    if style == "share":
        return percent(value)
    if style == "points":
        return f"{_trim(100 * value, 1)} points"
    if style == "ratio":
        return f"{_trim(value, 3)}×"
    return (f"{value:g}" if limit and (value == 0 or abs(value) >= 1e-4) else number(value)) + (
        " nats" if style == "nats" else ""
    )


def number(value: float | None, digits: int = 3) -> str:
    """A number with some significant digits, without an exponent where a person reads it better so."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value == 0:
        return "0"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if abs(value) < 1e-4 or abs(value) >= 1e9:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa} × 10{_superscript(int(exponent))}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def percent(value: float | None, decimals: int = 1) -> str:
    """A share of one, in percent. Only 1.0 is written 100 %."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return number(value)
    text = _trim(100 * value, decimals)
    if text == "100" and value < 1:
        text = f"{100 - 10**-decimals:.{decimals}f}"
    return f"{text} %"


def interval(ends: tuple[float, float] | None) -> str:
    """Both ends of an interval of shares, in percent."""
    return "–" if ends is None else f"{_trim(100 * ends[0], 1)} to {_trim(100 * ends[1], 1)} %"


def dimension(name: str) -> str:
    """A dimension as people call it."""
    return DIMENSIONS[name][1] if name in DIMENSIONS else name


def size(n_bytes: float | None) -> str:
    """Bytes in the largest binary unit that leaves at least one."""
    if n_bytes is None:
        return "–"
    value, units = float(n_bytes), ["B", "KiB", "MiB", "GiB"]
    while abs(value) >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:.0f} {units[0]}" if units[0] == "B" or abs(value) >= 100 else f"{value:.3g} {units[0]}"


def duration(seconds: float) -> str:
    """A duration in milliseconds, seconds, or minutes and seconds."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def moment(iso: str) -> str:
    """A moment to the minute; a text that is none as it stands."""
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".strip()


def power_of_ten(exponent: int) -> str:
    """Ten to some power as an axis shows it."""
    return {0: "1", 1: "10", -1: "0.1", -2: "0.01"}.get(exponent, f"10{_superscript(exponent)}")


def _superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _trim(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def marked_code(text: str) -> Markup:
    """A text as HTML, with options of a command, their values, and what stands in backticks marked as code."""
    parts = _CODE.split(text)
    shown = [
        escape(part) if i % 2 == 0 else Markup("<code>{}</code>").format(part.strip("`"))
        for i, part in enumerate(parts)
    ]
    return Markup("").join(shown)
