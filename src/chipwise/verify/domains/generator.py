"""The registry of domains, and `generate`, which turns one of them into cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chipwise.errors import InputError
from chipwise.verify.domains import camera, factory, home, vehicle
from chipwise.verify.domains.case import LANGUAGES, SPLITS, DomainCase, Intent, digest_of, split_of
from chipwise.verify.domains.draw import Draw

MISSES_PER_CASE = 1000  # about 10 are usual: nine texts of ten belong to the other split

DOMAINS: Mapping[str, Sequence[Intent]] = {
    "home": home.INTENTS,
    "vehicle": vehicle.INTENTS,
    "factory": factory.INTENTS,
    "camera": camera.INTENTS,
}


def generate(domain: str, n: int, seed: int, split: str) -> list[DomainCase]:
    """Draw `n` different cases of a domain, languages taking turns.

    Args:
        domain: a name in `DOMAINS`.
        n: number of cases.
        seed: the same seed gives the same cases on every machine and Python version.
        split: "train" or "heldout"; no text is in both, whatever the seeds.

    Raises:
        InputError: the domain or the split is unknown, or the domain cannot write so many different cases.
    """
    if domain not in DOMAINS:
        raise InputError(f"domain {domain!r} is unknown", remedy=f"choose one of {', '.join(DOMAINS)}")
    if split not in SPLITS:
        raise InputError(f"split {split!r} is unknown", remedy=f"choose one of {', '.join(SPLITS)}")
    draw = Draw(f"{domain}/{seed}/{split}")
    cases: dict[str, DomainCase] = {}
    misses = 0
    while len(cases) < n:
        lang = LANGUAGES[len(cases) % len(LANGUAGES)]
        draft = draw.choice(DOMAINS[domain])(draw, lang)
        digest = digest_of(draft.messages)
        if digest in cases or split_of(draft.messages) != split:
            misses += 1
            if misses > MISSES_PER_CASE * n:
                raise InputError(f"domain {domain!r} ran dry after {len(cases)} cases", remedy="ask for fewer")
            continue
        cases[digest] = DomainCase(
            id=f"{domain}-{lang}-{draft.template}-{digest[:10]}",
            domain=domain,
            lang=lang,
            messages=draft.messages,
            expected=draft.expected,
            keywords=draft.keywords,
            kind=draft.kind,
        )
    return list(cases.values())
