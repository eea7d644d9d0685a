"""Verification from a suite to a Quality: encode, run, compare, score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chipwise.engine import Session
from chipwise.errors import QueryFileError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import Tokenizer
from chipwise.report.quality import Quality
from chipwise.verify.case import Case
from chipwise.verify.compare import compare
from chipwise.verify.generate import Progress, Prompt, generate
from chipwise.verify.score import answer_text, score_answers, score_comparison, score_texts
from chipwise.verify.suite import Suite


def encode_suite(suite: Suite, tokenizer: Tokenizer, template: ChatTemplate | None) -> list[Prompt]:
    """The suite's cases as token ids, in order.

    Raises:
        RequestError: The template refuses a conversation.
        QueryFileError: A case is a conversation, and the model has no template.
    """
    return [case.encode(tokenizer, template) for case in suite.cases]


def context_needed(prompts: Sequence[Prompt]) -> int:
    """Tokens a slot must hold for every prompt and its answer."""
    return max((prompt.context for prompt in prompts), default=1)


def verify(
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    tokenizer: Tokenizer,
    *,
    candidate: Session,
    reference: Session | None = None,
    reference_prompts: Sequence[Prompt] | None = None,
    progress: Progress | None = None,
) -> Quality:
    """Run the cases on the candidate and, if there is one, the reference.

    Cases that do not fit the context do not run; the Quality names them.

    Args:
        cases: The cases.
        prompts: Their token ids, in the same order.
        tokenizer: The tokenizer of both.
        candidate: The model as it will run.
        reference: The model as it was; None scores the candidate's answers alone.
        reference_prompts: The cases as the reference's own chat template puts them; None if it has the candidate's.
            Where they differ, each side answers its own, and texts are compared in place of tokens.
        progress: Told the cases done.

    Raises:
        EngineError: A runtime failed, or the two have different vocabularies.
        QueryFileError: No case fits the context, so nothing could be judged.
    """
    context = candidate.max_context if reference is None else min(candidate.max_context, reference.max_context)
    if prompts and all(prompt.context > context for prompt in prompts):
        raise QueryFileError(
            f"no case fits the context of {context} tokens with its answer",
            remedy="give shorter cases, or a bundle built with a larger --context",
        )
    eos_ids = tokenizer.special.eos_ids
    differ = differing(prompts, reference_prompts or prompts)
    if reference is not None and reference_prompts is not None and differ:
        return _apart(cases, (reference_prompts, reference), (prompts, candidate), tokenizer, differ, progress)
    if reference is not None:
        compared = compare(reference, candidate, prompts, eos_ids=eos_ids, progress=progress)
        return score_comparison(cases, compared, tokenizer)
    fits = [prompt.context <= candidate.max_context for prompt in prompts]
    ran = [case for case, fit in zip(cases, fits, strict=True) if fit]
    left_out = [case.id for case, fit in zip(cases, fits, strict=True) if not fit]
    fitting = [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit]
    answers = generate(candidate, fitting, eos_ids=eos_ids, progress=progress)
    return score_answers(ran, answers, tokenizer, not_run=left_out)


def differing(one: Sequence[Prompt], other: Sequence[Prompt]) -> list[int]:
    """Places of the prompts whose tokens are not the same on both sides."""
    return [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a.tokens != b.tokens]


def _apart(
    cases: Sequence[Case],
    reference: tuple[Sequence[Prompt], Session],
    candidate: tuple[Sequence[Prompt], Session],
    tokenizer: Tokenizer,
    differ: Sequence[int],
    progress: Progress | None,
) -> Quality:
    """Both sides on prompts of their own: what is asked is the same, what is fed is not."""
    sides = (reference, candidate)
    fits = [
        all(prompts[place].context <= session.max_context for prompts, session in sides) for place in range(len(cases))
    ]
    ran = [case for case, fit in zip(cases, fits, strict=True) if fit]
    if not ran:
        raise QueryFileError(
            "no case fits the context with its answer in both sides' chat templates", remedy="give shorter cases"
        )
    before, after = (
        generate(
            session,
            [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit],
            eos_ids=tokenizer.special.eos_ids,
            progress=progress if session is candidate[1] else None,
        )
        for prompts, session in sides
    )
    scored = score_texts(
        ran,
        [answer_text(answer, tokenizer) for answer in after],
        reference=[answer_text(answer, tokenizer) for answer in before],
        finite=[one.finite and other.finite for one, other in zip(before, after, strict=True)],
        not_run=[case.id for case, fit in zip(cases, fits, strict=True) if not fit],
    )
    return replace(scored, prompts_differ=len(differ))
