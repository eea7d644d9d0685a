"""A domain's suite: cases of all four dimensions, half of them in Chinese, from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chipwise.errors import InputError
from chipwise.verify.domains.case import LANGUAGES, DomainCase
from chipwise.verify.domains.draw import Draw
from chipwise.verify.domains.generator import DOMAINS, generate
from chipwise.verify.domains.instructions import record_text, tools_text
from chipwise.verify.domains.noise import spoil
from chipwise.verify.domains.record import draw_record

LEAST = 8
"""Cases a suite can have: one a dimension and language."""

MOST = 20_000
"""Cases a suite can have at most."""

CASES = 400
"""Cases of a suite: of a hundred in a dimension that all stay right, a loss of three points is ruled out."""

RECORD_LINES = 40
"""Lines of a long record, unless the user says otherwise."""

EVIDENCE = ("reading", "limit", "is", "asked")
"""Fields some models write into a call before they decide; they are no arguments."""

Line = dict[str, Any]


def domain_lines(
    domain: str, count: int = CASES, seed: int = 0, *, bare: bool = False, record_lines: int = RECORD_LINES
) -> list[Line]:
    """The lines of a suite, a quarter a dimension, languages taking turns.

    Args:
        domain: A name in ``generator.DOMAINS``.
        count: Cases, LEAST to MOST.
        seed: The same seed gives the same lines on every machine and Python version.
        bare: Whether to leave out the system text that names tools and format, for a model that was trained on them.
        record_lines: Lines of the long records.

    Raises:
        InputError: The domain is unknown, or the count out of range.
    """
    if domain not in DOMAINS:
        raise InputError(f"domain {domain!r} is unknown", remedy=f"choose one of {', '.join(DOMAINS)}")
    if not LEAST <= count <= MOST:
        raise InputError(f"a suite of {count} cases", remedy=f"ask for {LEAST} to {MOST}")
    drawn = generate(domain, 16 * -(-count // LEAST) + 64, seed, "heldout")
    n_plain, n_rules, n_records, n_noisy = _shares(count, 4)
    plain, rules = (
        [
            line
            for lang, n in zip(LANGUAGES, _shares(of_kind, len(LANGUAGES)), strict=True)
            for line in _first(drawn, lang, rule, n, domain, bare)
        ]
        for rule, of_kind in ((False, n_plain), (True, n_rules))
    )
    records = list(_records(domain, n_records, seed, bare=bare, lines=record_lines))
    return [*plain, *rules, *records, *noisy_lines([*plain, *rules], n_noisy, seed)]


def _shares(count: int, parts: int) -> list[int]:
    """A count in parts as even as can be, the larger first."""
    return [(count + parts - 1 - i) // parts for i in range(parts)]


def _first(drawn: Sequence[DomainCase], lang: str, rule: bool, count: int, domain: str, bare: bool) -> Iterator[Line]:
    """The first cases of a language that are rules, or that are not."""
    found = [case for case in drawn if case.lang == lang and _is_rule(case) == rule][:count]
    if len(found) < count:
        raise InputError(f"domain {domain!r} ran dry after {len(found)} cases", remedy="ask for fewer")
    for case in found:
        messages = case.messages if bare else _told(case.messages, tools_text(domain, lang))
        line = {"id": case.id, "dimension": "logic" if rule else "keyword", "lang": lang, "domain": domain}
        asked = {} if rule else {"keywords": list(case.keywords)}
        yield {**line, "messages": messages, "expected": case.expected, **asked}


def _is_rule(case: DomainCase) -> bool:
    return f'"{EVIDENCE[0]}":' in case.expected


def _told(messages: Sequence[dict[str, str]], instructions: str) -> list[dict[str, str]]:
    """The messages behind instructions, in one system message with what that said."""
    said = [message["content"] for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    return [{"role": "system", "content": "\n".join([instructions, *said])}, *rest]


def _records(domain: str, count: int, seed: int, *, bare: bool, lines: int) -> Iterator[Line]:
    draw = Draw(f"record/{domain}/{seed}")
    for index in range(-(-count // len(LANGUAGES))):
        for lang in LANGUAGES[: count - index * len(LANGUAGES)]:
            record = draw_record(draw, domain, lang, lines)
            user = [{"role": "user", "content": record.text}]
            yield {
                "id": f"{domain}-{lang}-record-{index + 1}",
                "dimension": "long_range",
                "lang": lang,
                "domain": domain,
                "messages": user if bare else _told(user, record_text(lang)),
                "expected": record.answer,
                "fact": list(record.facts),
            }


def noisy_lines(clean: Sequence[Line], count: int, seed: int) -> Iterator[Line]:
    """Noisy twins of some cases, languages taking turns as far as there are cases; the truth stays the clean ones'.

    Args:
        clean: Cases with ``messages``, whose last message is spoiled.
        count: How many twins, of as many cases at most.
        seed: Of the choice and of the noise.
    """
    draw = Draw(f"noise/{seed}/{len(clean)}")
    by_language = [[line for line in clean if line.get("lang") == lang] for lang in LANGUAGES]
    queues = [draw.sample(part, len(part)) for part in by_language]
    made = 0
    while made < count and any(queues):
        for queue in queues:
            if queue and made < count:
                line = queue.pop(0)
                *before, last = line["messages"]
                kind, text = spoil(draw, last["content"])
                labels: Line = {name: line[name] for name in ("lang", "domain") if name in line}
                yield {
                    "id": f"{line['id']}-{kind}",
                    "dimension": "noise",
                    **labels,
                    "kind": kind,
                    "messages": [*before, {**last, "content": text}],
                    "clean": line["id"],
                }
                made += 1
