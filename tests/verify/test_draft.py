from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import QueryFileError
from chipwise.model.queries import Query
from chipwise.verify.draft import draft_lines
from chipwise.verify.suite import read_suite
from chipwise.verify.suite_writer import write_suite


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


LOG = [
    Query(prompt="Turn on light-42 at 7:30 pm for 20 minutes."),
    Query(messages=(user("把卧室的灯调到37%"),)),
    Query(messages=(user("Hello there"),)),
    Query(messages=({"role": "system", "content": "t: 31"}, user("Report."), {"role": "assistant", "content": "E123"})),
    Query(prompt="Turn on light-42 at 7:30 pm for 20 minutes."),
    Query(messages=(user("hi"), {"role": "assistant", "content": None, "tool_calls": []})),
    Query(messages=({"role": "system", "content": "only this"},)),
]


def test_a_draft_from_a_log(tmp_path: Path) -> None:
    lines = draft_lines(LOG, "home", 40, record_lines=20)
    by_id = {line["id"]: line for line in lines}
    assert by_id["log-1"]["keywords"] == ["light-42", "7:30 pm", "20"]
    assert by_id["log-2"]["keywords"] == ["37"]
    assert by_id["log-2"]["lang"] == "zh"
    assert by_id["log-4"]["expected"] == "E123"
    assert by_id["log-4"]["messages"][-1] == user("Report.")
    assert "log-5" not in by_id
    assert "log-7" not in by_id
    write_suite(tmp_path, "mine", lines, about="", record_lines=20)
    cases = {case.id: case for case in read_suite(tmp_path).cases}
    assert [case.dimension for case in cases.values()].count("logic") == 10
    assert [case.dimension for case in cases.values()].count("long_range") == 10
    assert cases["log-1"].misses("light-42 at 19:30, 20 min") == ()
    hello = next(case for case in cases.values() if case.clean == "log-3")
    assert cases["log-3"].dimension is None
    assert hello.misses("Hi!", "Hi") == ()
    assert hello.misses("Bye!", "Hi") != ()


def test_a_log_without_questions() -> None:
    with pytest.raises(QueryFileError, match="no query ends in a user's message"):
        draft_lines(LOG[-1:], "home", 40)


def test_what_the_log_is_short_of_is_said(caplog: pytest.LogCaptureFixture) -> None:
    lines = draft_lines(LOG, "home", 40, record_lines=20)
    assert len(lines) < 40
    (said,) = caplog.messages
    assert said.startswith("3 of 10 keyword cases: the log has no more queries with entities; 5 of 10 noise cases")
    caplog.clear()
    full = [Query(prompt=f"Set lamp-{i} to {i} percent.") for i in range(10)]
    assert len(draft_lines(full, "home", 40, record_lines=20)) == 40
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("asked", "keywords"),
    [
        ("把冰箱设为零下5度", ["-5"]),
        ("Set the freezer to minus 18 degrees", ["-18"]),
        ("今晚七点半打开3号灯", ["今晚七点半", "3"]),
        ("Wake me at 5 pm", ["5 pm"]),
        ("Pour 1,500 ml", ["1,500"]),
    ],
)
def test_keywords_keep_what_a_number_means(asked: str, keywords: list[str]) -> None:
    line = next(iter(draft_lines([Query(prompt=asked)], "home", 40, record_lines=20)))
    assert line["keywords"] == keywords
