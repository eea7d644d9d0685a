"""The texts a build runs on: queries to calibrate with and cases to verify on, kept apart where there are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from chipwise.build.options import BuildOptions
from chipwise.errors import QueryFileError
from chipwise.files import sha256_file
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.queries import Query, read_queries
from chipwise.model.tokenizer import Tokenizer
from chipwise.verify.case import Case
from chipwise.verify.generate import Prompt
from chipwise.verify.suite import first_cases, read_suite

# Answers to queries without a right answer are compared token by token; more tokens a case tell little more.
_QUERY_ANSWER_TOKENS = 12
CALIBRATION_PROMPTS = 32
"""Prompts whose statistics set scales."""

_MIN_CALIBRATION = 8
# Statistics of more tokens than this change little, and long prompts bring many.
_CALIBRATION_TOKENS = 8192


_Asked = tuple[Case, Prompt]
"""A query as a case, and its token ids."""


@dataclass(frozen=True)
class Texts:
    """What a build runs on.

    Attributes:
        calibration: Token ids of prompts whose statistics set scales.
        cases: What is verified.
        prompts: The cases' token ids.
        source: Where they came from, by property, for the report.
        general: Whether no queries of the user's were given.
        shared: Whether calibration had to use cases that are verified, for want of others.
        skipped: Queries longer than the context.
        left_out: Cases of the suite beyond the number asked for.
        scored: Whether the cases are those of a suite.
        gate: Thresholds that the suite sets.
    """

    calibration: tuple[tuple[int, ...], ...]
    cases: tuple[Case, ...]
    prompts: tuple[Prompt, ...]
    source: dict[str, str]
    general: bool
    shared: bool
    skipped: int
    left_out: int = 0
    scored: bool = False
    gate: Mapping[str, float] = field(default_factory=dict)


def gather_texts(
    options: BuildOptions,
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    max_context: int,
    *,
    calibration_prompts: int = CALIBRATION_PROMPTS,
) -> Texts:
    """Read queries and suite, and share the queries out between calibration and verification.

    Raises:
        QueryFileError: A file is malformed, or every query is longer than the context.
        RequestError: The chat template refuses a conversation.
    """
    queries = read_queries(options.queries) if options.queries else general_queries()
    source = {"queries": _described(options.queries) if options.queries else "general ones that come with chipwise"}
    suite_cases: tuple[Case, ...] = ()
    left_out = 0
    gate: Mapping[str, float] = {}
    if options.suite:
        suite = read_suite(options.suite)
        everything, gate = suite.cases, suite.gate
        suite_cases = first_cases(everything, options.max_cases)
        left_out = len(everything) - len(suite_cases)
        source["suite"] = f"{options.suite.name}, sha256 {suite.sha256}"
    scored = [(case, case.encode(tokenizer, template)) for case in suite_cases]
    kept = [(case, prompt) for case, prompt in scored if prompt.context <= max_context]
    wanted = 0 if options.suite else options.max_cases
    asked, skipped = _fitting(queries, tokenizer, template, max_context, wanted + calibration_prompts)
    calibrated, verified, shared = _share_out(asked, wanted, calibration_prompts)
    kept += verified
    skipped += len(scored) - len(kept) if options.suite else 0
    if not kept or not calibrated:
        empty = options.suite if not kept else options.queries
        raise QueryFileError(
            f"every query is longer than the context of {max_context} tokens with its answer",
            where=str(empty or "the general queries"),
            remedy="give shorter ones, or a larger --context if the model has it",
        )
    return Texts(
        calibration=_enough([prompt.tokens for _, prompt in calibrated]),
        cases=tuple(case for case, _ in kept),
        prompts=tuple(prompt for _, prompt in kept),
        source=source,
        general=options.queries is None,
        shared=shared,
        skipped=skipped,
        left_out=left_out,
        scored=options.suite is not None,
        gate=gate,
    )


def _fitting(
    queries: Sequence[Query], tokenizer: Tokenizer, template: ChatTemplate | None, max_context: int, enough: int
) -> tuple[list[_Asked], int]:
    """The first queries that fit the context with their answers, as many as are enough, and how many did not fit."""
    fitting: list[_Asked] = []
    for index, query in enumerate(queries):
        if len(fitting) == enough:
            return fitting, index - len(fitting)
        case = Case(f"query-{index + 1}", query, max_tokens=_QUERY_ANSWER_TOKENS)
        prompt = case.encode(tokenizer, template)
        if prompt.tokens and prompt.context <= max_context:
            fitting.append((case, prompt))
    return fitting, len(queries) - len(fitting)


def _share_out(
    asked: Sequence[_Asked], wanted: int, calibration_prompts: int
) -> tuple[Sequence[_Asked], Sequence[_Asked], bool]:
    """Queries for calibration and for verification; only if there are too few serve some for both."""
    if not wanted:
        return asked[:calibration_prompts], (), False
    verified = asked[: min(wanted, max(1, len(asked) * 2 // 3))]
    rest = asked[len(verified) :][:calibration_prompts]
    if len(rest) >= min(_MIN_CALIBRATION, len(asked) // 3) and rest:
        return rest, verified, False
    return asked[:calibration_prompts], asked[:wanted], True


def _enough(prompts: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """The first prompts, up to as many tokens as tell something new, but not fewer than three."""
    kept: list[tuple[int, ...]] = []
    for prompt in prompts:
        if len(kept) >= 3 and sum(map(len, kept)) + len(prompt) > _CALIBRATION_TOKENS:
            break
        kept.append(prompt)
    return tuple(kept)


def general_queries() -> list[Query]:
    """The queries that come with chipwise, for when the user gives none."""
    with resources.as_file(resources.files("chipwise.build") / "general_queries.jsonl") as path:
        return read_queries(path)


def _described(path: Path) -> str:
    return f"{path.name}, sha256 {sha256_file(path)}"
