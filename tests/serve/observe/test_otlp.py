"""Requests leave spans at a collector, as it reads them from the wire."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from chipwise.cli.main import main
from chipwise.engine.graph_session import TensorSpec
from chipwise.engine.null import NullOptions, NullSession, WallClock
from chipwise.errors import InputError
from chipwise.serve.http.keys import read_keys
from chipwise.serve.observe.otlp import OtlpTracing
from chipwise.serve.observe.tracing import open_tracing, traces_url
from tests.serve.collector import Collector, collecting, values
from tests.serve.fakes import VOCAB, alone, null_encoder, null_graph, null_model, says, text_of
from tests.serve.fragile import FragileSession
from tests.serve.http.test_tools import CALL, LAMP, serving
from tests.serve.http.test_tools import HELLO as GREETING
from tests.serve.live import live
from tests.serve.loop.test_runner import Bench
from tests.serve.templates import HERMES_TEMPLATE
from tests.serve.test_server import command, write_bundle

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "rojo=00f067aa0ba902b7"}
HELLO = {"prompt": "hello\n", "temperature": 0, "max_tokens": 8}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def assert_nested(collector: Collector, root: Span) -> list[str]:
    """Stages follow each other inside their request; their names, in order."""
    children = collector.children(root)
    marks = [root.start_time_unix_nano]
    for child in children:
        assert child.trace_id == root.trace_id
        assert child.kind == Span.SPAN_KIND_INTERNAL
        marks += [child.start_time_unix_nano, child.end_time_unix_nano]
    marks.append(root.end_time_unix_nano)
    assert marks == sorted(marks)
    if children:
        for one, following in pairwise(children):
            assert one.end_time_unix_nano == following.start_time_unix_nano
        assert children[-1].end_time_unix_nano == root.end_time_unix_nano
    for event in root.events:
        assert root.start_time_unix_nano <= event.time_unix_nano <= root.end_time_unix_nano
    return [child.name for child in children]


def test_a_chat_leaves_a_span_with_its_stages_under_the_callers(collector: Collector) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "temperature": 0.5, "seed": 7}
    before_ns = time.time_ns()
    with live(null_model(next_token=says("hi!")), otlp_traces_endpoint=collector.url) as server:
        answer = server.http.post("/v1/chat/completions", json={**body, "priority": "interactive"}, headers=HEADERS)
    assert collector.paths == ["/v1/traces"]
    (root,) = collector.roots()
    assert root.name == "chat null-bytes"
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert root.trace_state == "rojo=00f067aa0ba902b7"
    said = answer.json()
    assert values(root.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "chipwise",
        "gen_ai.request.model": "null-bytes",
        "gen_ai.response.model": "null-bytes",
        "gen_ai.response.id": said["id"],
        "gen_ai.request.max_tokens": 8,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.seed": 7,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": said["usage"]["prompt_tokens"],
        "gen_ai.usage.output_tokens": said["usage"]["completion_tokens"],
        "gen_ai.usage.cache_read.input_tokens": 0,
        "chipwise.priority": "interactive",
    }
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert assert_nested(collector, root) == ["queue", "prefill", "decode"]
    assert before_ns <= root.start_time_unix_nano < root.end_time_unix_nano <= time.time_ns()
    assert collector.resource["service.name"] == "chipwise"
    # Nothing that was said leaves the server.
    assert b"hello" not in b"".join(request.SerializeToString() for request in collector.requests)


def test_stages_have_the_times_of_the_servers_own_clock(collector: Collector) -> None:
    bench = Bench(n_slots=1, next_token=says("hello"), prefill_s=0.25, decode_s=0.5)
    tracing = OtlpTracing(f"{collector.url}/v1/traces", bench.clock)
    trace = tracing.begin("text_completion", {})
    bench.clock.advance(1.0)
    trace.queued(1)
    bench.clock.advance(2.0)
    bench.ask("hello\n", max_tokens=3, trace=trace)
    bench.run()
    bench.clock.advance(4.0)
    # The client took its time to read it.
    trace.answered()
    tracing.close()
    (root,) = collector.roots()
    spans = [root, *collector.children(root)]
    took_s = {one.name: (one.end_time_unix_nano - one.start_time_unix_nano) / 1e9 for one in spans}
    prefill_s, decode_s = 6 * 0.25, 2 * 0.5
    assert took_s == pytest.approx(
        {"text_completion": 3 + prefill_s + decode_s, "queue": 2.0, "prefill": prefill_s, "decode": decode_s}, abs=1e-6
    )


def test_each_choice_has_stages_of_its_own(collector: Collector) -> None:
    with live(null_model(), otlp_traces_endpoint=collector.url) as server:
        answer = server.http.post("/v1/completions", json={**HELLO, "n": 2, "stream": True})
        assert answer.text.endswith("data: [DONE]\n\n")
    (root,) = collector.roots()
    about = values(root.attributes)
    assert about["gen_ai.request.choice.count"] == 2
    assert about["gen_ai.request.stream"] is True
    assert about["gen_ai.response.finish_reasons"] == ["length", "length"]
    assert about["gen_ai.usage.output_tokens"] == 16
    assert about["gen_ai.usage.input_tokens"] == 6
    stages = sorted((child.name, values(child.attributes)["chipwise.choice"]) for child in collector.children(root))
    assert stages == [(name, choice) for name in ("decode", "prefill", "queue") for choice in (0, 1)]
    for child in collector.children(root):
        assert root.start_time_unix_nano <= child.start_time_unix_nano
        assert child.end_time_unix_nano <= root.end_time_unix_nano


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("most", "reason"), [(400, "tool_calls"), (8, "length")])
def test_an_answer_that_calls_tools_ends_as_its_client_reads(
    collector: Collector, stream: bool, most: int, reason: str
) -> None:
    body = {"messages": GREETING, "tools": [LAMP], "temperature": 0, "n": 2, "stream": stream, "max_tokens": most}
    with serving(HERMES_TEMPLATE, f"One moment.{CALL}", slope=0.05, otlp_traces_endpoint=collector.url) as server:
        answer = server.http.post("/v1/chat/completions", json=body)
        assert answer.text.count(f'"finish_reason":"{reason}"') == 2
    (root,) = collector.roots()
    assert values(root.attributes)["gen_ai.response.finish_reasons"] == [reason, reason]


def test_reused_tokens_are_told(collector: Collector) -> None:
    body = {**HELLO, "prompt": "a prompt that is sent twice\n"}
    with live(null_model(), otlp_traces_endpoint=collector.url) as server:
        answers = [server.http.post("/v1/completions", json=body).json() for _ in range(2)]
    cached = [values(root.attributes)["gen_ai.usage.cache_read.input_tokens"] for root in collector.roots()]
    assert cached == [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]
    assert cached[1] > 0


def test_models_that_answer_in_one_run(collector: Collector) -> None:
    graph = null_graph(TensorSpec("x", (None,), np.dtype(np.float32)))
    asked = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}
    with live(None, encoder=null_encoder(), graph=graph, otlp_traces_endpoint=collector.url) as server:
        assert server.http.post("/v1/embeddings", json={"input": ["a", "bc"]}, headers=HEADERS).status_code == 200
        assert server.http.post("/v1/infer", json=asked).status_code == 200
        assert server.http.get("/v1/infer").status_code == 200
    embeddings, infer = collector.roots()
    assert (embeddings.name, infer.name) == ("embeddings null-encoder", "infer null-graph")
    assert embeddings.trace_id.hex() == TRACE
    about = values(embeddings.attributes)
    assert (about["gen_ai.usage.input_tokens"], about["gen_ai.embeddings.dimension.count"]) == (3, 6)
    assert "error.type" not in about


@pytest.mark.parametrize(
    ("body", "error"),
    [({**HELLO, "temperature": 9}, "invalid_value"), ({**HELLO, "model": "other"}, "model_not_found")],
)
def test_a_refused_request_says_why(collector: Collector, body: dict, error: str) -> None:
    with live(null_model(), otlp_traces_endpoint=collector.url) as server:
        assert 400 <= server.http.post("/v1/completions", json=body).status_code < 500
    (root,) = collector.roots()
    assert values(root.attributes)["error.type"] == error
    # The client's mistake is none of the server's.
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert assert_nested(collector, root) == []


def test_a_failing_engine_and_a_server_that_ends(collector: Collector) -> None:
    model = null_model(1, fail_steps=frozenset({0}))
    with live(model, otlp_traces_endpoint=collector.url, max_waiting=0) as server:
        assert server.http.post("/v1/completions", json=HELLO).status_code == 500
        server.site.worker.drain(lambda: None)
        assert server.http.post("/v1/completions", json=HELLO).status_code == 503
    failed, refused = collector.roots()
    assert values(failed.attributes)["error.type"] == "EngineError"
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert "step 0" in failed.status.message
    assert assert_nested(collector, failed) == ["queue", "prefill"]
    assert values(refused.attributes)["error.type"] == "UnavailableError"
    assert refused.name == "text_completion null-bytes"


def talkative(n_slots: int = 1, **options):
    return null_model(n_slots, 100_000, next_token=lambda _: ord("x"), clock=WallClock(), decode_s=0.005, **options)


def test_no_room_for_one_of_the_choices(collector: Collector) -> None:
    with live(talkative(2), otlp_traces_endpoint=collector.url, max_waiting=1) as server:
        endless = {**HELLO, "max_tokens": 90_000, "n": 2}
        with server.http.stream("POST", "/v1/completions", json={**endless, "stream": True}) as first:
            assert first.status_code == 200
            server.wait_for(running=2, waiting=0)
            with httpx.Client(base_url=server.url, verify=False) as other:
                assert other.post("/v1/completions", json=endless).status_code == 429
        server.wait_for(running=0, waiting=0)
    left, refused = collector.roots()
    assert values(refused.attributes)["error.type"] == "OverloadedError"
    assert refused.status.code == Status.STATUS_CODE_UNSET
    assert [child.name for child in collector.children(refused)] == ["queue"]
    assert values(left.attributes)["error.type"] == "cancelled"
    assert values(left.attributes)["gen_ai.response.finish_reasons"] == ["cancelled", "cancelled"]
    assert left.status.code == Status.STATUS_CODE_UNSET


def test_a_deadline_that_passes_in_the_queue(collector: Collector) -> None:
    with live(talkative(), otlp_traces_endpoint=collector.url) as server:
        begun = threading.Thread(
            target=server.http.post, args=("/v1/completions",), kwargs={"json": {**HELLO, "max_tokens": 60}}
        )
        begun.start()
        server.wait(lambda: server.service.metrics.value("chipwise_running_requests") == 1)
        with httpx.Client(base_url=server.url, verify=False) as other:
            assert other.post("/v1/completions", json={**HELLO, "deadline_ms": 30}).status_code == 504
        begun.join()
    (late,) = [root for root in collector.roots() if root.status.code == Status.STATUS_CODE_ERROR]
    assert values(late.attributes)["error.type"] == "DeadlineError"
    assert assert_nested(collector, late) == ["queue"]


def test_giving_way_is_told(collector: Collector) -> None:
    with live(talkative(3), otlp_traces_endpoint=collector.url, parking_slots=2) as server:
        slow = {**HELLO, "max_tokens": 40, "priority": "background"}
        begun = threading.Thread(target=server.http.post, args=("/v1/completions",), kwargs={"json": slow})
        begun.start()
        server.wait(lambda: server.service.metrics.value("chipwise_running_requests") == 1)
        with httpx.Client(base_url=server.url, verify=False) as other:
            other.post("/v1/completions", json={**HELLO, "priority": "emergency"})
        begun.join()
    (one,) = [root for root in collector.roots() if root.events]
    assert [event.name for event in one.events] == ["parked", "resumed"]
    assert values(one.attributes)["chipwise.priority"] == "background"
    assert assert_nested(collector, one) == ["queue", "prefill", "decode"]


def test_eviction_is_told_by_the_one_who_loses_its_cache(collector: Collector) -> None:
    with live(talkative(1), otlp_traces_endpoint=collector.url) as server:
        slow = {**HELLO, "max_tokens": 40, "priority": "background"}
        begun = threading.Thread(target=server.http.post, args=("/v1/completions",), kwargs={"json": slow})
        begun.start()
        server.wait(lambda: server.service.metrics.value("chipwise_generated_tokens_total") > 2)
        with httpx.Client(base_url=server.url, verify=False) as other:
            other.post("/v1/completions", json={**HELLO, "priority": "emergency"})
        begun.join()
    slow_one, urgent = collector.roots()
    assert [event.name for event in slow_one.events] == ["evicted", "resumed"]
    assert not urgent.events
    assert_nested(collector, slow_one)


def test_a_fault_that_the_fallback_cures_is_told(collector: Collector) -> None:
    second = NullSession(4, 256, NullOptions(vocab_size=VOCAB))
    model = replace(null_model(fail_steps=frozenset({3})), fallback=second)
    with live(model, otlp_traces_endpoint=collector.url) as server:
        answer = server.http.post("/v1/completions", json=HELLO)
        assert answer.json()["choices"][0]["text"] == text_of(alone(list(b"hello\n"), 8))
    (root,) = collector.roots()
    (event, *resumed) = root.events
    assert event.name == "fallback"
    assert "step 3" in str(values(event.attributes)["chipwise.reason"])
    assert [one.name for one in resumed] == ["resumed"]
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert assert_nested(collector, root) == ["queue", "prefill", "decode"]


def test_an_engine_that_is_lost_and_comes_back_is_told(collector: Collector) -> None:
    session = FragileSession(4, 256, NullOptions(vocab_size=VOCAB), lambda number, rows: number == 3)
    model = replace(null_model(), session=session, process=session)
    with live(model, otlp_traces_endpoint=collector.url) as server:
        answer = server.http.post("/v1/completions", json=HELLO)
        assert answer.json()["choices"][0]["text"] == text_of(alone(list(b"hello\n"), 8))
    (root,) = collector.roots()
    assert [event.name for event in root.events] == ["engine_restart", "resumed"]
    assert values(root.events[0].attributes)["chipwise.reason"] == "lost 0"
    assert assert_nested(collector, root) == ["queue", "prefill", "decode"]


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"traceparent": "x" * 600}, False),
        ({"traceparent": "00-nonsense"}, False),
        ({"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=" + "x" * 600}, True),
        ({"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "NO PAIR,a=1,a=2"}, True),
        ({"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": ",".join(f"k{i}=1" for i in range(40))}, True),
    ],
)
def test_headers_that_tell_no_trace_are_passed_over_without_a_word(
    collector: Collector, headers: dict[str, str], kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with live(null_model(), otlp_traces_endpoint=collector.url) as server:
        assert server.http.post("/v1/completions", json=HELLO, headers=headers).status_code == 200
    (root,) = collector.roots()
    assert (root.trace_id.hex() == TRACE) is kept
    assert (root.parent_span_id == b"") is not kept
    assert not [record for record in caplog.records if record.levelname != "INFO"]


def test_strangers_leave_no_trace(collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[[keys]]\nclient = "hmi"\nkey = "a secret of 16 characters"\n')
    with live(null_model(), keys=read_keys(tmp_path / "keys.toml"), otlp_traces_endpoint=collector.url) as server:
        assert server.http.post("/v1/completions", json=HELLO).status_code == 401
        key = {"authorization": "Bearer a secret of 16 characters"}
        assert server.http.post("/v1/completions", json=HELLO, headers=key).status_code == 200
    (root,) = collector.roots()
    assert "error.type" not in values(root.attributes)


def test_the_sdks_variables_hold(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "cab-7")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "site=north")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=t1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    with live(null_model(), otlp_traces_endpoint=f"{collector.url}/other/path") as server:
        server.http.post("/v1/completions", json=HELLO)
        server.http.post("/v1/completions", json=HELLO, headers=HEADERS)
    (root,) = collector.roots()
    assert root.trace_id.hex() == TRACE
    assert (collector.resource["service.name"], collector.resource["site"]) == ("cab-7", "north")
    assert collector.headers[0]["x-tenant"] == "t1"
    assert collector.paths == ["/other/path"]


def test_without_the_option_nothing_is_sent(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with live(null_model()) as server:
        assert server.http.post("/v1/completions", json=HELLO, headers=HEADERS).status_code == 200
        assert server.site.tracing is None
    assert not collector.paths


def test_a_collector_that_is_down_costs_one_line_and_one_when_it_is_back(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    collector.status = 404
    with live(null_model(), otlp_traces_endpoint=collector.url) as server:
        for _ in range(3):
            tried = len(collector.paths)
            assert server.http.post("/v1/completions", json=HELLO).status_code == 200
            server.wait(lambda tried=tried: len(collector.paths) > tried)
        collector.status = 200
        server.http.post("/v1/completions", json=HELLO)
        server.wait(lambda: bool(collector.spans))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 2, lines
    assert lines[0].startswith(f"no traces are taken at {collector.url}/v1/traces")
    assert "404" in lines[0]
    assert "taken again" in lines[1]


def test_nobody_listens_and_the_server_ends_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    with collecting() as gone:
        pass
    with live(null_model(), otlp_traces_endpoint=gone.url) as server:
        for _ in range(5):
            assert server.http.post("/v1/completions", json=HELLO).status_code == 200
        ending_s = time.monotonic()
    assert time.monotonic() - ending_s < 8
    assert len([record for record in caplog.records if record.levelname != "INFO"]) <= 1


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://board:4318", "http://board:4318/v1/traces"),
        ("https://a.example/", "https://a.example/v1/traces"),
        ("http://[::1]:4318/in?x=1", "http://[::1]:4318/in?x=1"),
    ],
)
def test_where_traces_go(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


@pytest.mark.parametrize(
    "endpoint", ["", "localhost:4317", "grpc://a:4317", "http://", "http://a:99999", "http://a b/"]
)
def test_a_bad_endpoint_is_one_line_and_exit_2(endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    bundle = write_bundle(tmp_path / "bundle")
    assert main(["serve", str(bundle), "--port", "0", "--otlp-traces-endpoint", endpoint]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: --otlp-traces-endpoint: ")
    assert "OTLP over HTTP" in line


def test_a_wrong_variable_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-3")
    with pytest.raises(InputError, match="OpenTelemetry cannot be set up"):
        open_tracing("http://127.0.0.1:1")


def test_without_the_package_one_line_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "chipwise.serve.observe.otlp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    bundle = write_bundle(tmp_path / "bundle")
    assert main(["serve", str(bundle), "--otlp-traces-endpoint", "http://127.0.0.1:4318"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'chipwise[otel]'" in line


def test_the_command_traces(collector: Collector, tmp_path: Path) -> None:
    with command(write_bundle(tmp_path / "bundle"), "--otlp-traces-endpoint", collector.url) as running:
        body = {"prompt": [1, 2, 3], "temperature": 0, "max_tokens": 4}
        assert httpx.post(f"{running.url}/v1/completions", json=body, headers=HEADERS).status_code == 200
        running.process.send_signal(signal.SIGTERM)
        code, out, _ = running.end()
    assert (code, out) == (0, "stopped\n")
    (root,) = collector.roots()
    assert root.name == "text_completion tiny/null"
    assert root.trace_id.hex() == TRACE
