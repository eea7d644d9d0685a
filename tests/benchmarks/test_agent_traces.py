from __future__ import annotations

import jsonschema
import pytest

from benchmarks.agent_traces import ask, requests
from benchmarks.agent_traces_results import (
    GUESSED,
    KINDS,
    PEER,
    PLAIN,
    AgentTraces,
    TraceAnswer,
    TraceServer,
    agent_traces,
)
from benchmarks.results import MachineFacts
from tests.serve.fakes import null_model, says
from tests.serve.live import live

MACHINE = MachineFacts("a cpu", 2, None, {}, (), "Linux", 1e10, "")


def server(name: str, decode_s: float, text: str = "x") -> TraceServer:
    answers = tuple(TraceAnswer(kind, text, 11, 0.1, decode_s) for kind in KINDS)
    return TraceServer(name, name, (answers, answers), (0.1, 0.2))


def test_the_page_says_how_much_faster_and_how_often_the_same() -> None:
    servers = (server(GUESSED, 1.0), server(PLAIN, 2.0), server(PEER, 3.0, "y"))
    result = AgentTraces("today", "m", MACHINE, "1", 2, servers, ())
    assert servers[1].rates("tool_calls") == [5.0, 5.0]
    assert result.ratio("prose", PLAIN) == pytest.approx(2.0)
    assert result.ratio("prose", "absent") is None
    assert result.same("prose") == (2, 2)
    page = "\n".join(agent_traces(result))
    assert "| llama_server | 3.00 | 3.00 | 3.00 |" in page
    assert "prose 2 of 2" in page


def test_every_kind_is_asked_and_rounds_differ() -> None:
    first, second = list(requests(0)), list(requests(1))
    assert {kind for kind, _ in first} == set(KINDS)
    assert all(one != two for one, two in zip(first, second, strict=True))
    schema = first[0][1]["response_format"]["json_schema"]["schema"]
    jsonschema.Draft202012Validator.check_schema(schema)


def test_an_answer_is_read_with_its_tokens() -> None:
    with live(null_model(2, 4096, next_token=says("hello"))) as running:
        answer = ask(running.http, "prose", list(requests(0))[-1][1])
    assert (answer.text, answer.tokens) == ("hello", 6)
    assert answer.ttft_s > 0
    assert answer.decode_s >= 0
