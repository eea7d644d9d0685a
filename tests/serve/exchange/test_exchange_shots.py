"""Encoders and plain graphs that are exchanged while they are asked, in the server's process: nobody is lost."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from chipwise.bundle import open_bundle
from chipwise.engine import registry
from chipwise.errors import BundleError, EngineError, RequestError, UnavailableError
from chipwise.serve.api import infer as infer_module
from chipwise.serve.api.infer import read_ask
from chipwise.serve.models.open_model import ModelOpener
from chipwise.serve.request.priority import Priority
from tests.serve.forms import Exchanging, exchanging, said, write_form
from tests.serve.shot_forms import ScalingEngine, vector, write_encoder, write_graph

RELOAD = "/v1/admin/reload"
OPENER = ModelOpener(4, 256, isolate=False)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScalingEngine]:
    """The engine ``scaling``; at the end all its gates are open."""
    made = ScalingEngine()
    monkeypatch.setitem(registry.engines._creators, "scaling", lambda: made)
    yield made
    for gate in made.gates.values():
        gate.set()


def infer(server: Exchanging, value: float = 1.0, *, name: str = "x", **fields: Any) -> httpx.Response:
    given = {"name": name, "shape": [1, 3], "datatype": "FP32", "data": [value, 2 * value, 3 * value]}
    return server.http.post("/v1/infer", json={"inputs": [given], **fields})


def first_of(answer: httpx.Response) -> float:
    assert answer.status_code == 200, answer.text
    return float(answer.json()["outputs"][0]["data"][0])


def embed(server: Exchanging, text: str = "hello", **fields: Any) -> httpx.Response:
    return server.http.post("/v1/embeddings", json={"input": text, **fields})


def is_of(answer: httpx.Response, text: str, salt: int) -> bool:
    assert answer.status_code == 200, answer.text
    return bool(np.allclose(answer.json()["data"][0]["embedding"], vector(text, salt), atol=1e-5))


def reload(server: Exchanging, path: Path | None = None, model: str | None = None) -> httpx.Response:
    fields = {"bundle": path and str(path), "model": model}
    return server.http.post(RELOAD, json={name: value for name, value in fields.items() if value is not None})


def line_of(answer: httpx.Response) -> tuple[int, str, str]:
    """Status, code and message of an error, which is one line."""
    error = answer.json()["error"]
    assert "\n" not in error["message"]
    return answer.status_code, error["code"], error["message"]


def test_a_graph_is_exchanged_and_all_say_so(tmp_path: Path, engine: ScalingEngine) -> None:
    path, other = write_graph(tmp_path / "a", 2.0), write_graph(tmp_path / "b", 5.0, name="other", input="z")
    with exchanging(path, opener=OPENER) as server:
        assert first_of(infer(server, 3.0)) == 6.0
        told = reload(server, other).json()
        assert (told["model"], told["bundle"], told["changed"]) == ("other", str(other), True)
        assert first_of(infer(server, 3.0, name="z")) == 15.0
        for asked in ("net", "other"):
            assert infer(server, name="z", model=asked).json()["model_name"] == "other"
        assert infer(server, name="z", model="third").json()["error"]["code"] == "model_not_found"
        status, code, message = line_of(infer(server))
        assert (status, code) == (400, "invalid_value")
        assert "the model has no input 'x'; it has z" in message
        about = server.http.get("/v1/infer").json()
        assert (about["name"], [one["name"] for one in about["inputs"]]) == ("other", ["z"])
        assert [model["id"] for model in server.http.get("/v1/models").json()["data"]] == ["other"]
        assert server.http.get("/health").json() == {"status": "ok", "model": "other"}
        mark = told["system_fingerprint"]
        assert server.metric(f'chipwise_job_model_info{{fingerprint="{mark}",kind="infer",model="other"}}') == 1
        assert server.metric('chipwise_exchanges_total{reason="bundle"}') == 1
        assert server.metric('chipwise_jobs_total{kind="infer",outcome="done"}') == 4
        assert server.metric('chipwise_jobs_total{kind="infer",outcome="invalid"}') == 2
        server.wait(lambda: server.metric("chipwise_leaving_models") == 0)
        assert [one.closed for one in engine.opened] == [True, False]
        assert reload(server, other).json()["changed"] is False
    assert [one.closed for one in engine.opened] == [True, True]


def test_an_encoder_is_exchanged(tmp_path: Path, engine: ScalingEngine) -> None:
    path, other = write_encoder(tmp_path / "a", 1), write_encoder(tmp_path / "b", 2, name="other")
    with exchanging(path, opener=OPENER) as server:
        assert is_of(embed(server), "hello", 1)
        assert reload(server, other).json()["model"] == "other"
        for asked in ("encoder", "other"):
            answer = embed(server, model=asked)
            assert is_of(answer, "hello", 2)
            assert answer.json()["model"] == "other"
        assert embed(server, model="third").status_code == 404
        server.wait(lambda: engine.opened[0].closed)


def test_what_runs_and_waits_is_finished_by_the_former_one(tmp_path: Path, engine: ScalingEngine) -> None:
    gate = engine.gates["old"] = threading.Event()
    gate.set()
    path, other = write_graph(tmp_path / "a", 2.0, gate="old"), write_graph(tmp_path / "b", 5.0)
    with exchanging(path, opener=OPENER) as server, ThreadPoolExecutor(5) as pool:
        gate.clear()
        old = [pool.submit(infer, server, float(value)) for value in range(1, 6)]
        server.wait(lambda: server.site.inference.current.pipeline.n_live == 5)
        assert reload(server, other).json()["changed"] is True
        assert first_of(infer(server, 3.0)) == 15.0, "it is there while the former one works"
        assert server.metric("chipwise_leaving_models") == 1
        assert server.site.inference.workload().running + server.site.inference.workload().waiting == 5
        assert not any(one.done() for one in old)
        gate.set()
        assert [first_of(one.result(20)) for one in old] == [2.0, 4.0, 6.0, 8.0, 10.0]
        server.wait(lambda: engine.opened[0].closed and server.metric("chipwise_leaving_models") == 0)
        assert server.metric('chipwise_jobs_total{kind="infer",outcome="done"}') == 6


def test_a_request_that_is_being_read_goes_where_it_began(
    tmp_path: Path, engine: ScalingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = write_graph(tmp_path / "a", 2.0), write_graph(tmp_path / "b", 5.0, name="other", input="z")
    entered, leave = threading.Event(), threading.Event()

    def read_slowly(*given: Any) -> Any:
        if given[0].name == "net":
            entered.set()
            assert leave.wait(20)
        return read_ask(*given)

    monkeypatch.setattr(infer_module, "read_ask", read_slowly)
    with exchanging(path, opener=OPENER) as server, ThreadPoolExecutor(1) as pool:
        former = server.site.inference.current
        old = pool.submit(infer, server, 3.0)
        assert entered.wait(10)
        assert reload(server, other).json()["changed"] is True
        assert first_of(infer(server, 3.0, name="z")) == 15.0
        assert server.site.inference.leaving == (former,)
        assert not former.pipeline.draining, "it still takes the request"
        leave.set()
        assert first_of(old.result(20)) == 6.0
        server.wait(lambda: engine.opened[0].closed)


def test_beside_a_language_model_the_bundles_kind_says_which_one_gives_way(
    tmp_path: Path, engine: ScalingEngine
) -> None:
    chat, texts, net = write_form(tmp_path / "c"), write_encoder(tmp_path / "e", 1), write_graph(tmp_path / "g", 2.0)
    with exchanging(chat, embeddings=texts, infer=net, opener=OPENER) as server:
        assert reload(server, write_graph(tmp_path / "g2", 5.0)).json()["model"] == "net"
        assert reload(server, write_encoder(tmp_path / "e2", 2), "encoder").json()["model"] == "encoder"
        assert reload(server, write_form(tmp_path / "c2", 2)).json()["model"] == "tiny"
        assert first_of(infer(server)) == 5.0
        assert is_of(embed(server), "hello", 2)
        assert server.text() == said("hello\n", 8, 2)
        assert [model["id"] for model in server.http.get("/v1/models").json()["data"]] == ["tiny", "encoder", "net"]
        page = server.http.get("/").text
        for seat in server.exchange.seats:
            assert seat.post.current.fingerprint in page
        names = "'tiny' (language model), 'encoder' (encoder), 'net' (plain graph)"
        assert line_of(reload(server, net, "nobody")) == (
            400, "invalid_value", f"no model 'nobody' is served; name one of those that are: {names}",
        )  # fmt: skip
        status, code, message = line_of(reload(server, net, "tiny"))
        assert (status, code) == (422, "bundle_refused")
        assert "a model of another kind (plain graph) than 'tiny', which it would replace (language model)" in message
        status, code, message = line_of(reload(server, write_graph(tmp_path / "g3", 7.0, name="encoder")))
        assert (status, code) == (422, "bundle_refused")
        assert "another model is served as 'encoder'" in message
        with pytest.raises(RequestError, match="several models are served; name one of those that are: 'tiny'"):
            server.exchange.order().result(10)
        assert server.metric('chipwise_exchange_failures_total{reason="bundle"}') == 4


def test_without_one_of_the_kind_the_names_are_listed(tmp_path: Path, engine: ScalingEngine) -> None:
    with exchanging(write_graph(tmp_path / "g"), opener=OPENER) as server:
        status, code, message = line_of(reload(server, write_encoder(tmp_path / "e")))
        assert (status, code) == (400, "invalid_value")
        assert message.endswith(
            "the bundle holds a model of the kind encoder, and none is served; "
            "name one of those that are: 'net' (plain graph)"
        )
        # It is a graph, too, and may be served as one.
        assert reload(server, tmp_path / "e", "net").json()["model"] == "encoder"
        assert {one["name"] for one in server.http.get("/v1/infer").json()["inputs"]} == {
            "input_ids", "attention_mask",
        }  # fmt: skip


@pytest.mark.parametrize("wrong", ["missing", "altered", "broken", "engine", "bug"])
@pytest.mark.parametrize("kind", ["graph", "encoder"])
def test_a_bundle_that_is_not_sound_leaves_the_other_in_service(
    tmp_path: Path, engine: ScalingEngine, kind: str, wrong: str, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    write = write_graph if kind == "graph" else write_encoder
    path, other = write(tmp_path / "a", 2), write(tmp_path / "b", 5, broken=wrong == "broken")
    if wrong == "missing":
        shutil.rmtree(other)
    elif wrong == "altered":
        open_bundle(other).files["graph"].write_bytes(b"graph")
    with exchanging(path, opener=OPENER) as server:
        if wrong == "engine":
            monkeypatch.setattr(engine, "open_graph", lambda *_, **__: 1 / 0)
        elif wrong == "bug":
            monkeypatch.setattr("chipwise.serve.exchange.seat.refuse_too_large", lambda *_: 1 / 0)
        expected = EngineError if wrong in ("engine", "bug") else BundleError
        with pytest.raises(expected):
            server.exchange.order(other, server.exchange.seats[0].name).result(10)
        answer = reload(server, other)
        status, code, message = line_of(answer)
        assert (status, code) == ((500, "engine_error") if expected is EngineError else (422, "bundle_refused"))
        lines = [record.getMessage() for record in caplog.records if "stays in service" in record.getMessage()]
        assert lines == [f"{server.exchange.seats[0].name} stays in service: {message}"] * 2
        assert server.metric('chipwise_exchange_failures_total{reason="bundle"}') == 2
        assert first_of(infer(server)) == 2.0 if kind == "graph" else is_of(embed(server), "hello", 2)
        assert server.http.get("/health").json()["status"] == "ok"
        assert [one.closed for one in engine.opened[1:]] == [True] * (len(engine.opened) - 1), "nothing stays open"
        monkeypatch.undo()


def test_one_that_does_not_fit_is_503(tmp_path: Path, engine: ScalingEngine) -> None:
    with exchanging(write_graph(tmp_path / "a", 2.0), opener=OPENER) as server:
        server.exchange._free_bytes = lambda: 1e6
        status, code, message = line_of(reload(server, write_graph(tmp_path / "b", 5.0)))
        assert (status, code) == (503, "unavailable")
        assert "net needs 67 MB beside the model that is served, 1 MB are free; end what else runs there" in message
        assert len(engine.opened) == 1
        assert first_of(infer(server)) == 2.0


def test_all_folders_are_read_again(tmp_path: Path, engine: ScalingEngine) -> None:
    chat, texts, net = write_form(tmp_path / "c"), write_encoder(tmp_path / "e", 1), write_graph(tmp_path / "g", 2.0)
    with exchanging(chat, embeddings=texts, infer=net, opener=OPENER) as server:
        write_encoder(texts, 2)
        told = server.http.post(RELOAD).json()
        assert [(one["model"], one["changed"]) for one in told["models"]] == [
            ("tiny", False), ("encoder", True), ("net", False),
        ]  # fmt: skip
        # As of language models alone: the first beside the list.
        assert {name: value for name, value in told.items() if name != "models"} == told["models"][0]
        assert is_of(embed(server), "hello", 2)
        write_graph(net, 5.0)
        shutil.rmtree(chat)
        write_encoder(texts, 3, broken=True)
        status, code, message = line_of(server.http.post(RELOAD, json={}))
        assert (status, code) == (422, "bundle_refused")
        assert f"{chat}: no such folder" in message
        assert "(and 1 more cannot be exchanged: see the log) (exchanged all the same: net)" in message
        assert (first_of(infer(server)), server.text()) == (5.0, said("hello\n", 8, 0))
        assert is_of(embed(server), "hello", 2)
        assert server.metric('chipwise_exchange_failures_total{reason="bundle"}') == 2
        write_encoder(texts, 3)
        told = reload(server, model="encoder").json()
        assert (told["model"], told["changed"], "models" in told) == ("encoder", True, False)
        assert is_of(embed(server), "hello", 3)


@pytest.mark.parametrize("kind", ["graph", "encoder"])
def test_a_model_is_not_opened_while_an_emergency_is_answered_and_its_tests_take_turns(
    tmp_path: Path, engine: ScalingEngine, kind: str
) -> None:
    write = write_graph if kind == "graph" else write_encoder
    path, other, chat = write(tmp_path / "a", 2), write(tmp_path / "b", 5), write_form(tmp_path / "c")
    beside = {"infer" if kind == "graph" else "embeddings": path}
    with exchanging(chat, opener=OPENER, **beside) as server:
        turns = server.post._turns
        turns.arrive(Priority.EMERGENCY)
        done = server.exchange.order(other)
        server.wait(lambda: server.exchange._spare is not None)
        with pytest.raises(FutureTimeoutError):
            done.result(0.1)
        assert len(engine.opened) == 1
        with turns.take(Priority.NORMAL):
            turns.leave(Priority.EMERGENCY)
            server.wait(lambda: len(engine.opened) == 2)
            with pytest.raises(FutureTimeoutError):
                done.result(0.1)
            assert engine.opened[1].runs == 0
        assert done.result(10).changed
        assert engine.opened[1].runs > 0


def test_tensors_in_shared_memory_across_an_exchange(tmp_path: Path, engine: ScalingEngine) -> None:
    gate = engine.gates["old"] = threading.Event()
    gate.set()
    path, other = write_graph(tmp_path / "a", 2.0, gate="old"), write_graph(tmp_path / "b", 5.0)
    memory = Path("/dev/shm") / f"chipwise-exchange-{os.getpid()}"
    memory.write_bytes(np.arange(12, dtype=np.float32).tobytes())

    def at(place: int) -> dict[str, Any]:
        return {"shared_memory_region": "r", "shared_memory_offset": 12 * place, "shared_memory_byte_size": 12}

    def ask(server: Exchanging, source: int, target: int) -> httpx.Response:
        given = {"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": at(source)}
        body = {"inputs": [given], "outputs": [{"name": "y", "parameters": at(target)}]}
        return server.http.post("/v1/infer", json=body)

    try:
        with (
            exchanging(path, opener=OPENER, shared_memory=True) as server,
            ThreadPoolExecutor(1) as pool,
        ):
            body = {"key": memory.name, "byte_size": 48}
            assert server.http.post("/v2/systemsharedmemory/region/r/register", json=body).status_code == 200
            gate.clear()
            old = pool.submit(ask, server, 0, 2)
            server.wait(lambda: engine.opened[0].runs == 2)
            assert reload(server, other).json()["changed"] is True
            assert ask(server, 1, 3).status_code == 200, "the region is the server's, not the graph's"
            gate.set()
            assert old.result(20).status_code == 200
            numbers = np.frombuffer(memory.read_bytes(), np.float32).tolist()
            assert numbers == [0, 1, 2, 3, 4, 5, 0, 2, 4, 15, 20, 25]
    finally:
        memory.unlink()


def test_the_end_of_the_server_beside_an_exchange(tmp_path: Path, engine: ScalingEngine) -> None:
    """What runs on both is answered, what is opened in vain is closed, and who waits for it is told at once."""
    for name in ("old", "young", "late"):
        engine.gates[name] = threading.Event()
        engine.gates[name].set()
    path, other, late = (
        write_graph(tmp_path / name, scale, gate=name) for name, scale in (("old", 2.0), ("young", 5.0), ("late", 7.0))
    )
    with exchanging(path, opener=OPENER) as server, ThreadPoolExecutor(4) as pool:
        engine.gates["old"].clear()
        old = pool.submit(infer, server, 1.0)
        server.wait(lambda: engine.opened[0].runs == 2)
        assert reload(server, other).json()["changed"] is True
        engine.gates["young"].clear()
        young = pool.submit(infer, server, 1.0)
        server.wait(lambda: engine.opened[1].runs == 2)
        engine.gates["late"].clear()
        waiting = pool.submit(reload, server, late)
        server.wait(lambda: len(engine.opened) == 3 and engine.opened[2].runs == 1)
        server.server.drain()
        assert line_of(waiting.result(20))[:2] == (503, "unavailable")
        server.wait(lambda: server.site.worker.draining)
        assert infer(server).status_code == 503
        for gate in engine.gates.values():
            gate.set()
        assert (first_of(old.result(20)), first_of(young.result(20))) == (2.0, 5.0)
        server.wait(lambda: server.server.should_exit)
    assert [one.closed for one in engine.opened] == [True] * 3
    with pytest.raises(UnavailableError, match="shutting down"):
        server.exchange.reread().result(1)


def test_one_that_hangs_keeps_its_memory_only_until_it_ends(
    tmp_path: Path, engine: ScalingEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("chipwise.serve.exchange.post._LAST_STEP_S", 0.05)
    monkeypatch.setattr("chipwise.serve.exchange.post._LOOK_S", 0.01)
    gate = engine.gates["old"] = threading.Event()
    gate.set()
    path, other = write_graph(tmp_path / "a", 2.0, gate="old"), write_graph(tmp_path / "b", 5.0)
    with exchanging(path, opener=OPENER) as server:
        gate.clear()
        assert infer(server, deadline_ms=100).status_code == 504
        assert reload(server, other).json()["changed"] is True
        server.wait(lambda: "does not end its last step" in caplog.text)
        assert (first_of(infer(server)), server.metric("chipwise_leaving_models")) == (5.0, 1)
        assert not engine.opened[0].closed
        gate.set()
        server.wait(lambda: engine.opened[0].closed)
        server.wait(lambda: server.metric("chipwise_leaving_models") == 0)
        assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_nobody_is_lost_under_load(tmp_path: Path) -> None:
    """onnxruntime: clients without a pause, while both kinds are exchanged again and again."""
    nets = [write_graph(tmp_path / f"g{i}", scale, name=f"net{i}", onnxruntime=True) for i, scale in enumerate((2, 5))]
    encoders = [write_encoder(tmp_path / f"e{i}", i, name=f"encoder{i}", onnxruntime=True) for i in range(2)]
    chat, stop = write_form(tmp_path / "chat"), threading.Event()
    scales = {"net0": 2.0, "net1": 5.0}

    def ask_graph(number: int) -> list[str]:
        said = []
        while not stop.is_set():
            value = float(number * 1000 + len(said) + 1)
            answer = infer(server, value, model="net0")
            name = answer.json().get("model_name", answer.text)
            assert first_of(answer) == value * scales[name]
            said.append(name)
        return said

    def ask_encoder(number: int) -> list[str]:
        said = []
        while not stop.is_set():
            text = f"{number} {len(said)}"
            answer = embed(server, text, model="encoder0")
            assert is_of(answer, text, int(answer.json()["model"][-1]))
            said.append(answer.json()["model"])
        return said

    with exchanging(chat, embeddings=encoders[0], infer=nets[0]) as server, ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(ask, number) for ask in (ask_graph, ask_encoder) for number in range(3)]
        try:
            for turn in range(1, 11):
                for path in (nets[turn % 2], encoders[turn % 2]):
                    done = reload(server, path)
                    assert done.json().get("changed") is True, done.text
                # From here on the new ones answer.
                assert infer(server).json()["model_name"] == f"net{turn % 2}"
                assert is_of(embed(server), "hello", turn % 2)
        finally:
            stop.set()
        answers = [client.result(60) for client in clients]
        assert {name for said in answers for name in said} == {"net0", "net1", "encoder0", "encoder1"}
        counts = {
            (kind, end): server.metric(f'chipwise_jobs_total{{kind="{kind}",outcome="{end}"}}')
            for kind in ("infer", "embeddings")
            for end in ("done", "cancelled", "expired", "error", "rejected", "invalid")
        }
        asked = {"infer": answers[:3], "embeddings": answers[3:]}
        for (kind, end), number in counts.items():
            assert number == (10 + sum(map(len, asked[kind])) if end == "done" else 0)
        assert server.metric('chipwise_exchanges_total{reason="bundle"}') == 20
        server.wait(lambda: server.metric("chipwise_leaving_models") == 0)
