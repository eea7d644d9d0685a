"""The texts a build runs on: queries to calibrate with and cases to verify on, kept apart where there are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from chipwise.build.options import BuildOptions
from chipwise.errors import QueryFileError
from chipwise.files import sha256_file
from chipwise.model.chat_template import ChatTemplate
from chipwise.model.queries import Query, read_queries
from chipwise.model.tokenizer import Tokenizer
from chipwise.verify.generate import Prompt
from chipwise.verify.suite import Case, read_suite

# Answers to queries without a right answer are compared token by token; more tokens a case tell little more.
_QUERY_ANSWER_TOKENS = 12
_CALIBRATION_PROMPTS = 32
_MIN_CALIBRATION = 8


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
    """

    calibration: tuple[tuple[int, ...], ...]
    cases: tuple[Case, ...]
    prompts: tuple[Prompt, ...]
    source: dict[str, str]
    general: bool
    shared: bool
    skipped: int


def gather_texts(options: BuildOptions, tokenizer: Tokenizer, template: ChatTemplate | None, max_context: int) -> Texts:
    """Read queries and suite, and share the queries out between calibration and verification.

    Raises:
        QueryFileError: A file is malformed, or every query is longer than the context.
        RequestError: The chat template refuses a conversation.
    """
    queries = read_queries(options.queries) if options.queries else general_queries()
    source = {"queries": _described(options.queries) if options.queries else "general ones that come with chipwise"}
    suite_cases: tuple[Case, ...] = ()
    if options.suite:
        suite_cases = read_suite(options.suite).cases[: options.max_cases]
        source["suite"] = _described(options.suite)
    wanted = options.max_cases - len(suite_cases) if not options.suite else 0
    calibrated, verified, shared = _share_out(queries, wanted)
    calibration = [tuple(query.tokens(tokenizer, template)) for query in calibrated]
    cases = [*suite_cases, *(_query_case(i, query) for i, query in enumerate(verified))]
    encoded = [(case, case.encode(tokenizer, template)) for case in cases]
    kept = [(case, prompt) for case, prompt in encoded if prompt.context <= max_context]
    fitting = [tokens for tokens in calibration if 0 < len(tokens) <= max_context]
    skipped = len(encoded) - len(kept) + len(calibration) - len(fitting)
    if not kept or not fitting:
        longest = max((prompt.context for _, prompt in encoded), default=0)
        raise QueryFileError(
            f"every query is longer than the context of {max_context} tokens (longest {longest})",
            where=str(options.queries or options.suite),
            remedy="give shorter queries or a larger --context",
        )
    return Texts(
        calibration=tuple(fitting),
        cases=tuple(case for case, _ in kept),
        prompts=tuple(prompt for _, prompt in kept),
        source=source,
        general=options.queries is None,
        shared=shared,
        skipped=skipped,
    )


def _share_out(queries: Sequence[Query], wanted: int) -> tuple[Sequence[Query], Sequence[Query], bool]:
    """Queries for calibration and for verification; only if there are too few serve some for both."""
    if not wanted:
        return queries[:_CALIBRATION_PROMPTS], (), False
    verified = queries[: min(wanted, max(1, len(queries) * 2 // 3))]
    rest = queries[len(verified) :][:_CALIBRATION_PROMPTS]
    if len(rest) >= min(_MIN_CALIBRATION, len(queries) // 3) and rest:
        return rest, verified, False
    return queries[:_CALIBRATION_PROMPTS], queries[:wanted], True


def _query_case(index: int, query: Query) -> Case:
    return Case(f"query-{index + 1}", query, max_tokens=_QUERY_ANSWER_TOKENS)


def general_queries() -> list[Query]:
    """The queries that come with chipwise, for when the user gives none."""
    with resources.as_file(resources.files("chipwise.build") / "general_queries.jsonl") as path:
        return read_queries(path)


def _described(path: Path) -> str:
    return f"{path.name}, sha256 {sha256_file(path)}"
