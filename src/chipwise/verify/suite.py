"""Suite: the cases a model is judged by, from files of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chipwise.errors import QueryFileError
from chipwise.files import sha256_bytes, sha256_file
from chipwise.model.queries import json_object, numbered_lines
from chipwise.verify.case import Case
from chipwise.verify.case_line import case_of
from chipwise.verify.scoring.settings import DIMENSIONS
from chipwise.verify.suite_file import SUITE_FILE, SuiteFile, read_suite_file


@dataclass(frozen=True)
class Suite:
    """Cases and where they are from.

    Attributes:
        name: A short name: the file's, or what suite.toml says.
        cases: The cases, at least one.
        sha256: Digest of the file, or of suite.toml and its files of cases.
        gate: Thresholds the suite sets, by name.
    """

    name: str
    cases: tuple[Case, ...]
    sha256: str
    gate: Mapping[str, float] = field(default_factory=dict)


def read_suite(path: Path) -> Suite:
    """Read a suite: a suite.toml or its folder, or one file of cases, one JSON object a line.

    A case with ``expected`` and no ``keywords`` is scored by the entities of ``expected``; ``"keywords": []`` leaves
    it unscored. In a file without suite.toml, width, case and spaces alone are taken as the same.

    Raises:
        QueryFileError: A file is missing, empty, in another encoding than UTF-8, or a line is malformed; the
            message names the line.
    """
    if path.suffix == ".toml" or (path / SUITE_FILE).is_file():
        toml = path if path.suffix == ".toml" else path / SUITE_FILE
        described = read_suite_file(toml)
        cases = _cases(described)
        parts = [sha256_file(part) for part in (toml, *described.cases)]
        return Suite(described.name, cases, sha256_bytes("\n".join(parts).encode()), described.gate)
    if path.is_dir():
        raise QueryFileError(f"no {SUITE_FILE} in the folder", where=str(path), remedy="name a folder with one")
    return Suite(path.stem, _cases(SuiteFile(path.stem, (path,))), sha256_file(path))


def _cases(described: SuiteFile) -> tuple[Case, ...]:
    cases: dict[str, Case] = {}
    places: dict[str, str] = {}
    for path in described.cases:
        for number, line in numbered_lines(path):
            where = f"{path}:{number}"
            case = case_of(json_object(line, where), where, described.settings, described.max_tokens)
            if case.id in cases:
                raise QueryFileError(
                    f"a second case named {case.id!r}", where=where, remedy="give each case its own id"
                )
            cases[case.id], places[case.id] = case, where
    return tuple(_beside_its_twin(case, cases, places[case.id]) for case in cases.values())


def _beside_its_twin(case: Case, cases: Mapping[str, Case], where: str) -> Case:
    """The case; of noise, with what makes its clean twin right unless it says so itself."""
    if case.clean is None:
        return case
    twin = cases.get(case.clean)
    if twin is None or twin.clean is not None:
        what = "is in no line" if twin is None else "is a case of noise itself"
        raise QueryFileError(f"the clean case {case.clean!r} {what}", where=where, remedy="name a case without noise")
    own = case.requirement if case.requirement and case.requirement.asks else None
    return replace(
        case, requirement=own or twin.requirement or case.requirement, expected=case.expected or twin.expected
    )


def first_cases(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """The first cases of each dimension in turns, ``count`` at most, in their order; twins stay together.

    A file is often sorted by dimension: its first hundred lines would judge one of them only.
    """
    if count >= len(cases):
        return tuple(cases)
    by_id = {case.id: case for case in cases}
    twins = {case.clean for case in cases if case.clean}
    queues = {dimension: [c for c in cases if c.dimension == dimension] for dimension in (*DIMENSIONS, None)}
    # A clean twin that is scored for nothing else comes with its noise.
    queues[None] = [case for case in queues[None] if case.id not in twins]
    chosen: dict[str, Case] = {}
    while any(queues.values()):
        for queue in queues.values():
            if not queue:
                continue
            case = queue.pop(0)
            pair = [by_id[case.clean], case] if case.clean else [case]
            new = [one for one in pair if one.id not in chosen]
            if len(chosen) + len(new) <= count:
                chosen |= {one.id: one for one in new}
    return tuple(case for case in cases if case.id in chosen)
