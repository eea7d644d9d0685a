"""The load of a rehearsal: who asks for what and when, and the air around the board, over days."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chipwise.serve.request.priority import Priority
from chipwise.serve.request.request import Request
from chipwise.serve.text.sampling import SamplingParams

DAY_S = 86400.0
GREEDY = SamplingParams(temperature=0.0)


@dataclass(frozen=True)
class Kind:
    """One kind of request.

    Attributes:
        priority: How urgent it is.
        per_hour: How many come in an hour, at night and in busy hours.
        prompt_tokens: Its prompt.
        answer_tokens: Its answer.
    """

    priority: Priority
    per_hour: tuple[float, float]
    prompt_tokens: int
    answer_tokens: int


# A home's or a machine's agent: alarms, people, routine reports, and summaries that nobody waits for.
KINDS = (
    Kind(Priority.EMERGENCY, (6, 12), 32, 8),
    Kind(Priority.INTERACTIVE, (10, 150), 96, 24),
    Kind(Priority.NORMAL, (20, 140), 160, 32),
    Kind(Priority.BACKGROUND, (10, 60), 384, 96),
)
BUSY_HOURS = (10.0, 18.0)


def is_busy(now_s: float) -> bool:
    """Whether it is one of the day's busy hours."""
    return BUSY_HOURS[0] <= now_s % DAY_S / 3600 < BUSY_HOURS[1]


def air_c(now_s: float) -> float:
    """The air in the housing: 38 degrees before dawn, 58 in the afternoon."""
    return 48.0 + 10.0 * math.sin((now_s / DAY_S - 0.375) * 2 * math.pi)


def arrivals(duration_s: float, seed: int, start_s: float) -> Iterator[Request]:
    """Requests in the order in which they come: Poisson processes, thinned to each hour's rate.

    Args:
        duration_s: How long they come, from 0 on.
        seed: Of all chance.
        start_s: The time of the day at 0.
    """
    return heapq.merge(*(_of_kind(kind, duration_s, seed, start_s) for kind in KINDS), key=lambda r: r.arrived_s)


def _of_kind(kind: Kind, duration_s: float, seed: int, start_s: float) -> Iterator[Request]:
    chance = np.random.default_rng([seed, kind.priority])
    now_s, number, most = 0.0, 0, max(kind.per_hour) / 3600
    while (now_s := now_s + float(chance.exponential(1 / most))) < duration_s:
        if chance.random() * most < kind.per_hour[is_busy(start_s + now_s)] / 3600:
            prompt = chance.integers(1, 64, kind.prompt_tokens, dtype=np.int64)
            name = f"{kind.priority.label}-{number}"
            yield Request(name, prompt, kind.answer_tokens, GREEDY, (), now_s, kind.priority)
            number += 1
