"""The texts of an attribution: the cases that drifted most, with the reference's answers to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chipwise.engine import Session
from chipwise.errors import InputError
from chipwise.report.quality import CaseResult, Quality
from chipwise.verify.attribution.phase import Text
from chipwise.verify.case import Case
from chipwise.verify.generate import Prompt, generate

TEXTS = 4
"""Texts that are run: what a layer does differs little from one to the next."""


def worst_prompts(
    quality: Quality, cases: Sequence[Case], prompts: Sequence[Prompt], *, room: int | None = None, count: int = TEXTS
) -> list[Prompt]:
    """The prompts of the cases that drifted most; values that are not finite come first.

    Args:
        quality: What verification measured.
        cases: The cases.
        prompts: Their prompts, in the same order.
        room: Tokens of a prompt, at most.
        count: How many prompts, at most.

    Raises:
        InputError: None of the prompts is that short.
    """
    by_id = {case.id: prompt for case, prompt in zip(cases, prompts, strict=True)}
    ran = sorted(quality.cases, key=_most_first)
    found = [by_id[case.id] for case in ran if room is None or len(by_id[case.id].tokens) <= room]
    if not found:
        raise InputError(
            f"no case fits the {room} tokens that the graphs read at once, so nothing can be attributed",
            remedy="give shorter cases",
        )
    return found[:count]


def answered(session: Session, prompts: Sequence[Prompt], eos_ids: Sequence[int]) -> list[Text]:
    """Prompts with a session's greedy answers.

    Args:
        session: The reference.
        prompts: Prompts that fit its context.
        eos_ids: Tokens that end an answer.

    Raises:
        EngineError: The runtime failed.
    """
    answers = generate(session, prompts, eos_ids=eos_ids)
    return [Text(prompt.tokens, answer.tokens) for prompt, answer in zip(prompts, answers, strict=True)]


def _most_first(case: CaseResult) -> tuple[bool, bool, float]:
    kl = case.kl_mean_nats
    return case.finite, not case.broke, -(kl if kl is not None and math.isfinite(kl) else 0.0)
