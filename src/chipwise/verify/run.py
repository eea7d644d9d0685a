"""Verification from a suite to a Quality: encode, run, compare, score."""

from __future__ import annotations

from collections.abc import Sequence

from chipwise.engine import Session
from chipwise.errors import QueryFileError
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.tokenizer import Tokenizer
from chipwise.report.quality import Quality
from chipwise.verify.case import Case
from chipwise.verify.compare import compare
from chipwise.verify.generate import Progress, Prompt, generate
from chipwise.verify.score import score_answers, score_comparison
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
    if reference is not None:
        compared = compare(reference, candidate, prompts, eos_ids=eos_ids, progress=progress)
        return score_comparison(cases, compared, tokenizer)
    fits = [prompt.context <= candidate.max_context for prompt in prompts]
    ran = [case for case, fit in zip(cases, fits, strict=True) if fit]
    left_out = [case.id for case, fit in zip(cases, fits, strict=True) if not fit]
    fitting = [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit]
    answers = generate(candidate, fitting, eos_ids=eos_ids, progress=progress)
    return score_answers(ran, answers, tokenizer, not_run=left_out)
