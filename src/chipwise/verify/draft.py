"""A draft of a suite from a log of queries: what can be told from the questions, for a person to go over."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

from chipwise.errors import QueryFileError
from chipwise.model.queries import Query
from chipwise.verify.domains.noise import language
from chipwise.verify.domains.suite_lines import CASES, RECORD_LINES, Line, domain_lines, noisy_lines
from chipwise.verify.keywords import entities
from chipwise.verify.scoring.quantity import quantity_of

_logger = logging.getLogger(__name__)

_NUMBER = re.compile(r"-?[\d,.]*\d")
_SCALED = re.compile("[百千万亿]")
_FROM_DOMAIN = ("logic", "long_range")


def draft_lines(
    queries: Sequence[Query],
    domain: str,
    count: int = CASES,
    seed: int = 0,
    *,
    bare: bool = False,
    record_lines: int = RECORD_LINES,
) -> list[Line]:
    """The lines of a suite: keywords and noise on the log's own queries, logic and long records of the domain.

    A query's entities (identifiers, times, numbers, what is quoted) become the keywords of its case; where a logged
    conversation ends in the assistant's answer, the entities of that, which is then expected. A query without any is
    the clean twin of a noisy one, which must get the same answer. Where the log has too few queries for either, the
    suite is smaller, and a warning says by how much.

    Args:
        queries: The log.
        domain: A name in ``domains.DOMAINS``.
        count: Cases at most.
        seed: Of the noise and of the domain's cases.
        bare: Whether to leave the system text out of the domain's cases.
        record_lines: Lines of the long records.

    Raises:
        InputError: The domain is unknown, or the count out of range.
        QueryFileError: No query ends in a user's message.
    """
    generated = domain_lines(domain, count, seed, bare=bare, record_lines=record_lines)
    logged = list(_logged(queries, domain))
    if not logged:
        raise QueryFileError("no query ends in a user's message", remedy="give conversations or texts")
    share = max(1, count // 4)
    told = [line for line in logged if line["keywords"]][:share]
    open_ones = [line for line in logged if not line["keywords"]][: max(0, share - len(told))]
    noisy = list(noisy_lines([*told, *open_ones], share, seed))
    if short := _short(len(told), len(noisy), share):
        _logger.warning(short)
    twins = {line["clean"] for line in noisy}
    return [
        *told,
        *(line for line in open_ones if line["id"] in twins),
        *(line for line in generated if line["dimension"] in _FROM_DOMAIN),
        *noisy,
    ]


def _short(told: int, noisy: int, share: int) -> str:
    """What the log had too few queries for, in a line; empty if it had enough."""
    missing = []
    if told < share:
        missing.append(f"{told} of {share} keyword cases: the log has no more queries with entities")
    if noisy < share:
        missing.append(f"{noisy} of {share} noise cases: the log has no more queries")
    return "; ".join(missing)


def _logged(queries: Sequence[Query], domain: str) -> Iterator[Line]:
    seen: set[str] = set()
    for number, query in enumerate(queries, 1):
        messages: list[dict[str, Any]] = list(query.messages) or [{"role": "user", "content": query.prompt}]
        answer = messages.pop()["content"] if messages[-1]["role"] == "assistant" else None
        if not messages or messages[-1]["role"] != "user" or not isinstance(messages[-1]["content"], str):
            continue
        if repr(messages) in seen:
            continue
        seen.add(repr(messages))
        asked = messages[-1]["content"]
        line: Line = {"id": f"log-{number}", "lang": language(asked), "domain": domain, "messages": messages}
        if isinstance(answer, str) and answer.strip():
            line["expected"] = answer
        found = entities(line["expected"]) if "expected" in line else tuple(map(_bare, entities(asked)))
        yield {**line, "keywords": list(dict.fromkeys(found))}


def _bare(entity: str) -> str:
    """A quantity's number: a tool call mostly has its unit elsewhere, or nowhere."""
    return entity if quantity_of(entity) is None or _SCALED.search(entity) else _NUMBER.findall(entity)[0]
