from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chipwise.errors import QueryFileError
from chipwise.verify.scoring.entity import USUAL
from chipwise.verify.scoring.settings import DIMENSIONS
from chipwise.verify.suite import first_cases, read_suite
from chipwise.verify.suite_file import read_suite_file

CASE = {"id": "a", "prompt": "Turn it on at half past seven in the evening.", "keywords": ["19:30"]}
FULL = """
name = "living room"
languages = ["en", "zh"]
cases = ["one.jsonl", "two.jsonl"]
max_tokens = 9

[dimensions.keyword]
same = ["time", "separator"]
types = ["id", "time"]
[dimensions.logic]
ignore = ["reason"]
ordered = false
[dimensions.logic.defaults.record]
audio = true
[dimensions.long_range]
fact_within = 0.25

[gate]
keyword_fidelity_drop = 0.02
"""


def folder(path: Path, toml: str = "", **files: list[dict]) -> Path:
    (path / "suite.toml").write_text(toml, encoding="utf-8")
    for name, cases in (files or {"cases": [CASE]}).items():
        lines = "\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        (path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return path


def test_a_folder_and_its_file_are_the_same_suite(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    place = folder(tmp_path / "mine")
    suite = read_suite(place)
    assert suite == read_suite(place / "suite.toml")
    assert suite.name == "mine"
    assert suite.cases[0].misses("at 7:30 pm") == ()
    before = suite.sha256
    (place / "cases.jsonl").write_text(json.dumps({**CASE, "id": "b"}), encoding="utf-8")
    assert read_suite(place).sha256 != before


def test_everything_it_may_say(tmp_path: Path) -> None:
    place = folder(tmp_path, FULL, one=[CASE], two=[{**CASE, "id": "b", "max_tokens": 3}])
    described = read_suite_file(place / "suite.toml")
    assert (described.name, described.languages) == ("living room", ("en", "zh"))
    assert described.settings.dimensions == ("keyword", "logic", "long_range")
    assert described.settings.same == {
        "keyword": frozenset({"time", "separator"}), "logic": USUAL, "long_range": USUAL,
    }  # fmt: skip
    assert described.settings.types == {"id", "time"}
    assert described.settings.calls.ignore == {"reason"}
    assert described.settings.calls.defaults == {"record": {"audio": True}}
    assert not described.settings.calls.ordered
    assert described.settings.fact_within == 0.25
    suite = read_suite(place)
    assert suite.gate == {"keyword_fidelity_drop": 0.02}
    assert [case.max_tokens for case in suite.cases] == [9, 3]


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("name = ", "suite.toml:1: no valid TOML"),
        ("max_tokens = " + "9" * 5000, "suite.toml:1: no valid TOML"),
        ("\n\nname = 'a\n", "suite.toml:3: no valid TOML"),
        ("nam = 'a'", "no field is named nam; there are name"),
        ("name = 3", "name is no text"),
        ("cases = []", "cases names no file"),
        ("cases = [3]", "cases is no list of texts"),
        ("cases = 'none.jsonl'", "no such file"),
        ("languages = 'en'", "languages is no list"),
        ("max_tokens = 0", "max_tokens is 0"),
        ("max_tokens = true", "max_tokens is True"),
        ("dimensions = 3", "dimensions is no table"),
        ("dimensions = {}", "dimensions lists none"),
        ("[dimensions.keywords]", "no field is named dimensions.keywords"),
        ("[dimensions.keyword]\nsmae = []", "no field is named dimensions.keyword.smae"),
        ("[dimensions.keyword]\nsame = ['times']", "dimensions.keyword.same has 'times'; there are time"),
        ("[dimensions.keyword]\ntypes = 'id'", "types is no list of texts"),
        ("[dimensions.long_range]\nfact_within = 0", "fact_within is 0"),
        ("[dimensions.logic]\nordered = 1", "ordered is neither"),
        ("[dimensions.logic]\ndefaults = {a = 1}", "defaults.a is no table"),
        ("[dimensions.logic.defaults.a]\nday = 2026-01-05", "defaults.a has what JSON has not"),
        ("[dimensions.logic.defaults.a]\nx = nan", "defaults.a has what JSON has not"),
        ("[dimensions.noise]", "a case of keyword, which suite.toml does not list"),
        ("[gate]\nkeyword = 0.1", "no threshold named 'keyword'"),
        ("[gate]\nkl_mean_nats = 'x'", "gate.kl_mean_nats is no number"),
        (f"[gate]\nkl_mean_nats = 1{'0' * 400}", "gate.kl_mean_nats is far beyond any threshold"),
        ("[gate]\nkeyword_fidelity = 3", "above 1"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, toml: str, message: str) -> None:
    cases = [{**CASE, "dimension": "keyword"}]
    with pytest.raises(QueryFileError) as caught:
        read_suite(folder(tmp_path, toml, cases=cases))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


def test_a_folder_without_either(tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match=r"no suite\.toml in the folder"):
        read_suite(tmp_path)
    (tmp_path / "suite.toml").write_text("")
    with pytest.raises(QueryFileError, match=r"no \.jsonl file"):
        read_suite(tmp_path)
    (tmp_path / "suite.toml").write_bytes("name = '开'".encode("gbk"))
    with pytest.raises(QueryFileError, match="not UTF-8"):
        read_suite(tmp_path)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_any_text_is_a_suite_or_an_error(tmp_path: Path, toml: str) -> None:
    (tmp_path / "suite.toml").write_bytes(toml.encode("utf-8", "surrogatepass"))
    with pytest.raises(QueryFileError):
        read_suite(tmp_path)


def test_the_first_cases_are_of_every_dimension_and_twins_stay_together(tmp_path: Path) -> None:
    cases = [{"id": f"k{i}", "prompt": "q", "keywords": ["x"]} for i in range(20)]
    cases += [{"id": f"l{i}", "prompt": "q", "calls": {"name": "a"}} for i in range(20)]
    cases += [{"id": f"c{i}", "prompt": "q", "keywords": []} for i in range(5)]
    cases += [{"id": f"n{i}", "prompt": "q", "clean": f"c{i}"} for i in range(5)]
    everything = read_suite(folder(tmp_path, cases=cases)).cases
    chosen = first_cases(everything, 12)
    found = [case.dimension for case in chosen]
    assert len(chosen) <= 12
    assert [found.count(dimension) for dimension in DIMENSIONS] == [3, 3, 0, 3]
    ids = {case.id for case in chosen}
    assert all(case.clean in ids for case in chosen if case.clean)
    assert [case.id for case in chosen] == [case.id for case in everything if case.id in ids]
    assert first_cases(everything, 500) == everything
    assert [case.id for case in first_cases(everything, 1)] == ["k0"]
