from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from chipwise.errors import InputError, OutputError
from chipwise.verify.domains import DOMAINS
from chipwise.verify.domains.suite_lines import domain_lines
from chipwise.verify.suite import read_suite
from chipwise.verify.suite_writer import write_suite


@pytest.mark.parametrize("domain", sorted(DOMAINS))
@pytest.mark.parametrize(("bare", "record_lines"), [(True, 4), (False, 40)])
def test_a_suite_of_every_domain(tmp_path: Path, domain: str, bare: bool, record_lines: int) -> None:
    lines = domain_lines(domain, 160, bare=bare, record_lines=record_lines)
    write_suite(tmp_path, domain, lines, about="two\nlines", record_lines=record_lines)
    cases = read_suite(tmp_path).cases
    parts = Counter((case.dimension, case.labels["lang"]) for case in cases)
    assert len(cases) == 160
    assert set(parts.values()) == {20}
    assert len(parts) == 8
    for case in cases:
        assert case.expected
        assert case.misses(case.expected) == (), case.id
        assert case.misses("") != (), case.id
        assert case.misses('{"tool":"reboot"}') != (), case.id
        assert ("system" in case.text.split("\n")[0]) or bare


def test_an_answer_without_evidence_is_as_right(tmp_path: Path) -> None:
    write_suite(tmp_path, "home", domain_lines("home", 16), about="", record_lines=40)
    for case in read_suite(tmp_path).cases:
        if case.dimension == "logic":
            call = json.loads(case.expected or "")
            for field in ("reading", "limit", "is", "asked"):
                del call[field]
            assert case.misses(json.dumps(call)) == ()
            assert case.misses(json.dumps({**call, "tool": "siren"})) != ()


@pytest.mark.parametrize("count", [8, 9, 15, 21])
def test_a_suite_has_as_many_cases_as_were_asked_for(count: int) -> None:
    lines = domain_lines("vehicle", count)
    assert len({line["id"] for line in lines}) == len(lines) == count
    for kind in (Counter(line["dimension"] for line in lines), Counter(line["lang"] for line in lines)):
        assert max(kind.values()) - min(kind.values()) <= (1 if len(kind) == 4 else 4)
    assert {line["clean"] for line in lines if "clean" in line} <= {line["id"] for line in lines}


def test_the_seed_decides() -> None:
    assert domain_lines("home", 40, 3) == domain_lines("home", 40, 3)
    one, other = (domain_lines("home", 40, seed) for seed in (3, 4))
    assert not {json.dumps(line["messages"]) for line in one} & {json.dumps(line["messages"]) for line in other}


def test_noise_is_of_cases_in_the_suite_that_it_changes() -> None:
    lines = {line["id"]: line for line in domain_lines("camera", 80)}
    noisy = [line for line in lines.values() if line["dimension"] == "noise"]
    assert len({line["clean"] for line in noisy}) == len(noisy) == 20
    for line in noisy:
        clean = lines[line["clean"]]
        assert line["messages"][:-1] == clean["messages"][:-1]
        assert line["messages"][-1] != clean["messages"][-1]


@pytest.mark.parametrize(("domain", "count"), [("kitchen", 40), ("home", 3), ("home", 10**9)])
def test_what_cannot_be_made(domain: str, count: int) -> None:
    with pytest.raises(InputError):
        domain_lines(domain, count)


def test_a_suite_is_not_overwritten_unless_asked(tmp_path: Path) -> None:
    lines = domain_lines("home", 8)
    write_suite(tmp_path / "s", 'a "name"', lines, about="", record_lines=40)
    assert read_suite(tmp_path / "s").name == 'a "name"'
    with pytest.raises(OutputError, match="a suite lies there"):
        write_suite(tmp_path / "s", "b", lines, about="", record_lines=40)
    write_suite(tmp_path / "s", "b", lines, about="", record_lines=40, overwrite=True)
    assert read_suite(tmp_path / "s").name == "b"
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        write_suite(tmp_path / "file" / "s", "b", lines, about="", record_lines=40)
