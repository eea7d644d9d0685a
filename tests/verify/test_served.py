from __future__ import annotations

import pytest

from chipwise.errors import EngineError, QueryFileError
from chipwise.model.queries import Query
from chipwise.verify.case import Case
from chipwise.verify.chat_client import CaseRefusedError
from chipwise.verify.scoring.requirement import Requirement
from chipwise.verify.served import verify_served

CASES = [
    Case(
        str(i), Query(prompt=f"say {i}"), requirement=Requirement((str(i),)), dimension="keyword", labels={"lang": "en"}
    )
    for i in range(20)
]


class Says:
    """Answers each case with its number, but for some."""

    def __init__(self, wrong: set[str] = frozenset(), refused: set[str] = frozenset(), broken: bool = False) -> None:
        self.wrong, self.refused, self.broken = wrong, refused, broken

    def answer(self, case: Case) -> str:
        if self.broken:
            raise EngineError("down")
        if case.id in self.refused:
            raise CaseRefusedError("too long")
        return "nothing" if case.id in self.wrong else f"it is {case.id}"


def test_a_server_alone() -> None:
    told: list[tuple[int, int]] = []
    found = verify_served(CASES, Says({"3"}), streams=4, progress=lambda *done: told.append(done))
    assert [case.id for case in found.cases] == [case.id for case in CASES]
    assert (found.matrix[0].candidate, found.matrix[0].scored, found.matrix[0].reference) == (19, 20, None)
    assert found.answer is None
    assert told[-1] == (20, 20)


def test_two_servers_side_by_side() -> None:
    found = verify_served(CASES, Says({"3", "4"}), reference=Says({"4", "5"}))
    row = found.matrix[0]
    assert (row.reference, row.candidate, row.broke, row.fixed) == (18, 18, 1, 1)
    assert found.answers_changed == 2


def test_what_either_refuses_does_not_run() -> None:
    found = verify_served(CASES, Says(refused={"3"}), reference=Says(refused={"5"}))
    assert found.not_run == ("3", "5")
    assert len(found.cases) == 18
    with pytest.raises(QueryFileError, match="refuses every case"):
        verify_served(CASES[:1], Says(refused={"0"}))


def test_a_broken_server_ends_it() -> None:
    with pytest.raises(EngineError, match="down"):
        verify_served(CASES, Says(broken=True))
