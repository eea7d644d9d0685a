"""Models that are exchanged while they are asked: nobody is lost, and nobody gets another's text."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from chipwise.bundle import EngineSpec, open_bundle
from chipwise.errors import BundleError, EngineError, InputError, UnavailableError
from chipwise.serve.models.open_model import ModelOpener
from tests.serve.fakes import VOCAB
from tests.serve.forms import Exchanging, Slow, exchanging, said, with_variant, write_form
from tests.serve.shot_forms import write_graph


def stream(url: str, prompt: str, max_tokens: int, begun: threading.Semaphore, **fields) -> tuple[str, set[str], str]:
    """What a client reads, the models that its chunks name, and how it ends."""
    text, models, end = "", set(), ""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True, **fields}
    with (
        httpx.Client(base_url=url, verify=False, timeout=30) as client,
        client.stream("POST", "/v1/completions", json=body) as response,
    ):
        assert response.status_code == 200, response.read()
        for line in response.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                models.add(event["model"])
                text += event["choices"][0]["text"]
                end = event["choices"][0]["finish_reason"] or end
                begun.release()
    return text, models, end


def test_a_variant_takes_over_between_requests_and_gives_back(tmp_path: Path) -> None:
    slow = Slow(0.005)
    with exchanging(with_variant(tmp_path), slow=slow) as server, ThreadPoolExecutor(4) as pool:
        first = server.ask().json()
        assert (first["model"], first["choices"][0]["text"]) == ("tiny", said("hello\n", 8, 0))
        begun = threading.Semaphore(0)
        running = pool.submit(stream, server.url, "long\n", 120, begun)
        assert begun.acquire(timeout=10)
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.active == "cool")
        assert not running.done(), "the test is too slow to tell"
        answer = server.ask().json()
        assert (answer["model"], answer["choices"][0]["text"]) == ("tiny:cool", said("hello\n", 8, 1))
        assert answer["system_fingerprint"] != first["system_fingerprint"]
        assert running.result(20)[:2] == (said("long\n", 120, 0), {"tiny"}), "it ends where it began"
        server.wait(lambda: server.metric("chipwise_leaving_models") == 0)
        assert slow.opened[0].closed
        server.exchange.want(None)
        server.wait(lambda: server.exchange.active is None)
        assert server.text() == said("hello\n", 8, 0)
        assert server.metric('chipwise_exchanges_total{reason="variant"}') == 2
        assert server.metric('chipwise_requests_total{outcome="length"}') == 4
    assert [session.closed for session in slow.opened] == [True] * 3


def test_forms_share_what_is_read_from_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = with_variant(tmp_path), write_form(tmp_path / "other", 2)
    stranger = write_form(tmp_path / "stranger", 3, add_bos=True)
    with exchanging(path) as server:
        first = server.post.current
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.active == "cool")
        server.exchange.want(None)
        with monkeypatch.context() as patch:
            patch.setattr("chipwise.bundle.bundle.Tokenizer", None)
            done = server.exchange.order(other).result(10).service
        assert done.model.tokenizer is first.model.tokenizer
        assert (done.vocabulary, done.grammars) == (first.vocabulary, first.grammars)
        unlike = server.exchange.order(stranger).result(10).service
        assert unlike.model.tokenizer is not first.model.tokenizer
        assert unlike.vocabulary is not first.vocabulary


def test_kv_of_one_form_is_never_anothers(tmp_path: Path) -> None:
    prompt = "the same beginning of sixty-four characters and more, again and again\n"
    with exchanging(with_variant(tmp_path)) as server:
        for variant, salt in ((None, 0), ("cool", 1), (None, 0), ("cool", 1)):
            server.exchange.want(variant)
            server.wait(lambda variant=variant: server.exchange.active == variant)
            answers = [server.ask(prompt, 20).json() for _ in range(2)]
            assert [answer["choices"][0]["text"] for answer in answers] == [said(prompt, 20, salt)] * 2
            cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]
            assert cached[0] == 0
            assert cached[1] > 0
        assert server.metric("chipwise_reused_tokens_total") > 0


def test_no_request_is_dropped_through_many_exchanges(tmp_path: Path) -> None:
    """Streams without a pause, while bundles and variants come and go: each gets one text of one model, whole."""
    path, salts = with_variant(tmp_path), {"tiny": {0, 2, 3}, "tiny:cool": {1}}
    others = [write_form(tmp_path / f"other{salt}", salt) for salt in (2, 3)]
    stop, begun = threading.Event(), threading.Semaphore(0)

    def client(number: int) -> list[tuple[str, str, set[str], str]]:
        answers = []
        while not stop.is_set():
            prompt = f"{number} {len(answers)}\n"
            answers.append((prompt, *stream(server.url, prompt, 25, begun)))
        return answers

    with exchanging(path, slow=Slow(0.001)) as server, ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(client, number) for number in range(6)]

        def let_some_be_said() -> None:
            for _ in range(100):
                assert begun.acquire(timeout=10)

        for _ in range(3):
            server.exchange.want("cool")
            server.wait(lambda: server.exchange.active == "cool")
            let_some_be_said()
            for other in others:
                assert server.exchange.order(other).result(20).changed
                let_some_be_said()
            assert server.exchange.order(path).result(20).changed
            server.wait(lambda: server.exchange.active == "cool")
            server.exchange.want(None)
            server.wait(lambda: server.exchange.active is None)
        stop.set()
        answers = [answer for client in clients for answer in client.result(30)]
        assert len(answers) > 30
        for prompt, text, models, end in answers:
            (model,) = models
            assert text in {said(prompt, 25, salt) for salt in salts[model]}
            assert end in ("length", "stop")
        assert {model for _, _, models, _ in answers for model in models} == {"tiny", "tiny:cool"}
        assert server.metric('chipwise_requests_total{outcome="error"}') == 0
        assert server.metric('chipwise_requests_total{outcome="rejected"}') == 0
        over = sum(server.metric(f'chipwise_requests_total{{outcome="{end}"}}') for end in ("length", "stop"))
        assert over == len(answers)
        assert server.metric('chipwise_exchanges_total{reason="bundle"}') == 9


def test_a_request_that_is_being_read_goes_where_it_began(tmp_path: Path) -> None:
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path) as server:
        with server.post.taken() as service:
            server.exchange.order(other).result(10)
            assert server.post.leaving == (service,)
            assert not service.loop.draining, "it still takes the request"
            assert server.text() == said("hello\n", 8, 2)
        server.wait(lambda: server.post.leaving == ())
        assert service.loop.draining


def test_engines_of_both_take_turns(tmp_path: Path) -> None:
    """So an emergency waits for the step that runs, and for no other: the more urgent is next, see test_turns."""
    slow = Slow(0.01)
    with exchanging(with_variant(tmp_path), slow=slow) as server, ThreadPoolExecutor(4) as pool:
        begun = threading.Semaphore(0)
        running = [pool.submit(stream, server.url, f"{i} long\n", 150, begun, priority="background") for i in range(3)]
        server.wait(lambda: server.metric("chipwise_running_requests") == 3)
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.active == "cool")
        old, young = slow.opened
        before = old.steps
        for number in range(5):
            answer = server.ask(f"{number} help\n", 10, priority="emergency").json()
            assert answer["model"] == "tiny:cool"
        assert old.steps > before, "the test is too slow to tell"
        assert young.steps > 20
        assert [one.result(30)[0] for one in running] == [said(f"{i} long\n", 150, 0) for i in range(3)]
    assert slow.most_at_once == 1


def test_a_form_that_is_not_wanted_any_more_does_not_take_over(tmp_path: Path) -> None:
    slow = Slow(gate=threading.Event())
    with exchanging(with_variant(tmp_path), slow=slow) as server:
        server.exchange.want("cool")
        assert slow.opening.acquire(timeout=10)
        assert server.text() == said("hello\n", 8, 0), "it goes on while the other is opened"
        server.exchange.want(None)
        slow.gate.set()
        server.wait(lambda: len(slow.opened) == 2 and slow.opened[1].closed)
        assert server.exchange.active is None
        assert server.metric('chipwise_exchanges_total{reason="variant"}') == 0


def test_a_variant_that_fails_its_self_test_leaves_the_other_in_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = with_variant(tmp_path, broken=True)
    with exchanging(path) as server:
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.trouble != "")
        assert server.text() == said("hello\n", 8, 0)
        assert server.metric('chipwise_exchange_failures_total{reason="variant"}') == 1
        assert "the self-test failed" in server.exchange.trouble
        assert "Not exchanged" in server.http.get("/").text
        (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert line.getMessage().startswith(f"tiny stays in service: {path}: the self-test failed")
        assert "\n" not in line.getMessage()
        server.exchange.want(None)
        server.wait(lambda: server.exchange.active is None)


def test_a_model_that_does_not_fit_beside_the_other_is_not_opened(tmp_path: Path) -> None:
    slow = Slow()
    with exchanging(with_variant(tmp_path), slow=slow) as server:
        server.exchange._free_bytes = lambda: 1e6
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.trouble != "")
        assert "tiny:cool needs 67 MB beside the model that is served, 1 MB are free" in server.exchange.trouble
        with pytest.raises(UnavailableError, match="needs 67 MB"):
            server.exchange.order(write_form(tmp_path / "b", 2)).result(10)
        assert len(slow.opened) == 1
        assert server.text() == said("hello\n", 8, 0)
        assert server.metric('chipwise_exchange_failures_total{reason="bundle"}') == 1


def test_another_bundle_of_the_same_path(tmp_path: Path) -> None:
    path = write_form(tmp_path / "served")
    with exchanging(path) as server:
        same = server.exchange.order().result(10)
        assert (same.changed, same.service) == (False, server.post.current)
        write_form(path, 2, created="2026-02-03T04:05:06+00:00")
        assert server.text() == said("hello\n", 8, 0), "what lies on disk is nothing to a server that was not told"
        done = server.exchange.order().result(10)
        assert (done.changed, done.path) == (True, path)
        assert server.text() == said("hello\n", 8, 2)


def test_names_that_were_served_go_on_being_answered(tmp_path: Path) -> None:
    path, other = write_form(tmp_path / "a", name="one"), write_form(tmp_path / "b", 2, name="two")
    beside = write_graph(tmp_path / "graph", name="three", onnxruntime=True)
    with exchanging(path, infer=beside) as server:
        assert server.ask(model="two").status_code == 404
        server.exchange.order(other).result(10)
        for asked in ("one", "two", None):
            answer = server.ask(**({} if asked is None else {"model": asked})).json()
            assert answer["model"] == "two"
        assert [model["id"] for model in server.http.get("/v1/models").json()["data"]] == ["two", "three"]
        assert server.ask(model="four").json()["error"]["code"] == "model_not_found"
        with pytest.raises(BundleError, match="another model is served as 'three'"):
            server.exchange.order(write_form(tmp_path / "c", 3, name="three")).result(10)


def test_a_variants_name_chooses_nothing(tmp_path: Path) -> None:
    with exchanging(with_variant(tmp_path)) as server:
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.active == "cool")
        assert server.ask(model="tiny").json()["model"] == "tiny:cool"
        assert server.ask(model="tiny:cool").status_code == 404
        assert server.http.get("/health").json() == {"status": "ok", "model": "tiny", "variant": "cool"}
        assert [model["id"] for model in server.http.get("/v1/models").json()["data"]] == ["tiny"]


@pytest.mark.parametrize("wrong", ["missing", "altered", "broken", "engine", "no tokenizer", "bug"])
def test_a_bundle_that_is_not_sound_leaves_the_other_in_service(
    tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = write_form(tmp_path / "a"), tmp_path / "b"
    engine = {"engine": EngineSpec("x")} if wrong == "engine" else {}
    write_form(other, 2, broken=wrong == "broken", tokenizer=wrong != "no tokenizer", **engine)
    if wrong == "missing":
        shutil.rmtree(other)
    elif wrong == "altered":
        open_bundle(other).files["decoder"].write_bytes(b"graph 9")
    with exchanging(path) as server:
        if wrong == "bug":

            def bug(*args, **kwargs):
                raise KeyError("not one of ours")

            monkeypatch.setattr("chipwise.serve.assembly.make_exchange.need_bytes", lambda *args, **kwargs: 0)
            monkeypatch.setattr(ModelOpener, "open", bug)
        with pytest.raises(EngineError if wrong == "bug" else InputError) as caught:
            server.exchange.order(other).result(10)
        assert "\n" not in str(caught.value)
        assert server.text() == said("hello\n", 8, 0)
        assert server.http.get("/health").json()["status"] == "ok"
        monkeypatch.undo()
        if wrong == "bug":
            assert server.exchange.order(other).result(10).changed, "it lives on"


def test_whatever_a_disk_or_a_runtime_raises_the_next_order_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, other = with_variant(tmp_path), write_form(tmp_path / "b", 2)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is gone")

    with exchanging(path) as server:
        places = ("chipwise.serve.exchange.exchange.open_bundle", "chipwise.serve.assembly.make_exchange.need_bytes")
        for place in places:
            with monkeypatch.context() as patch:
                patch.setattr(place, broken)
                with pytest.raises(EngineError, match=r"cannot be opened \(RuntimeError: the disk is gone\)"):
                    server.exchange.order(other).result(10)
        with monkeypatch.context() as patch:
            patch.setattr("chipwise.serve.assembly.make_exchange.need_bytes", broken)
            server.exchange.want("cool")
            server.wait(lambda: server.exchange.trouble != "")
        server.exchange.want(None)
        with monkeypatch.context() as patch:
            patch.setattr(server.exchange.chat, "on_bundle", broken)
            with pytest.raises(EngineError, match="the disk is gone"):
                server.exchange.order(other).result(10)
        assert server.exchange.order(path).result(10).changed
        assert server.text() == said("hello\n", 8, 0)
    assert "tiny stays in service" in caplog.text


def test_a_model_that_cannot_take_its_post_is_closed_and_the_next_order_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as where the system has no more threads for it."""
    slow = Slow()
    path, other = with_variant(tmp_path), write_form(tmp_path / "b", 2)

    def no_thread(_: object) -> bool:
        raise RuntimeError("can't start new thread")

    with exchanging(path, slow=slow) as server:
        with monkeypatch.context() as patch:
            patch.setattr(server.post, "exchange", no_thread)
            server.exchange.want("cool")
            server.wait(lambda: "can't start new thread" in server.exchange.trouble)
            with pytest.raises(EngineError, match="can't start new thread"):
                server.exchange.order(other).result(10)
        assert [one.closed for one in slow.opened] == [False, True, True]
        server.exchange.want(None)
        assert server.exchange.trouble == "", "nobody wants it any more"
        assert server.exchange.order(other).result(10).changed
        assert server.text() == said("hello\n", 8, 2)


def test_a_folder_that_moved_is_opened_where_it_lies_now(tmp_path: Path) -> None:
    """An engine that is started anew would look for its files in vain."""
    path = write_form(tmp_path / "served")
    with exchanging(path) as server:
        shutil.copytree(path, tmp_path / "copy")
        assert not server.exchange.order(tmp_path / "copy").result(10).changed
        (tmp_path / "copy").rename(tmp_path / "moved")
        done = server.exchange.order(tmp_path / "moved").result(10)
        assert (done.changed, done.path) == (True, tmp_path / "moved")
        assert server.text() == said("hello\n", 8, 0)


def test_an_exchange_beside_the_end_of_the_server(tmp_path: Path) -> None:
    """The end waits for streams of both, new requests are refused, and what is still opened is closed."""
    slow = Slow(0.004, gate=threading.Event())
    path, other = write_form(tmp_path / "a"), write_form(tmp_path / "b", 2)
    with exchanging(path, slow=slow) as server, ThreadPoolExecutor(4) as pool:
        begun = threading.Semaphore(0)
        old = pool.submit(stream, server.url, "old\n", 100, begun)
        assert begun.acquire(timeout=10)
        slow.gate.set()
        server.exchange.order(other).result(10)
        young = pool.submit(stream, server.url, "new\n", 150, begun)
        server.wait(lambda: server.metric("chipwise_running_requests") == 2)
        slow.gate.clear()
        late = server.exchange.order(path)
        server.wait(lambda: slow.opening.acquire(blocking=False) and len(slow.opened) == 3)
        latest = pool.submit(server.http.post, "/v1/admin/reload", json={"bundle": str(path)})
        server.wait(lambda: len(server.exchange._orders) == 1)
        called_off = server.exchange.order(path)
        assert called_off.cancel()
        server.server.drain()
        server.wait(lambda: server.post.draining)
        assert server.ask().status_code == 503
        with pytest.raises(UnavailableError, match="shutting down"):
            late.result(10)
        answer = latest.result(10)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert not slow.gate.is_set(), "nobody waits for what is opened in vain"
        slow.gate.set()
        assert old.result(20)[0] == said("old\n", 100, 0)
        assert young.result(20)[0] == said("new\n", 150, 2)
        server.wait(lambda: server.server.should_exit)
    assert [session.closed for session in slow.opened] == [True] * 3
    with pytest.raises(UnavailableError, match="shutting down"):
        server.exchange.order(path).result(1)


def test_what_is_kept_of_prompts_is_kept_for_each_form(tmp_path: Path) -> None:
    prompt, kept = "a beginning of sixty-four characters and more, asked again and again\n", tmp_path / "kept"

    def ask(server: Exchanging) -> int:
        answer = server.ask(prompt, 20).json()
        return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

    path = with_variant(tmp_path)
    with exchanging(path, kept_prompts=kept) as server:
        assert ask(server) == 0
        for variant, cached in (("cool", 0), (None, 1), ("cool", 1)):
            server.exchange.want(variant)
            server.wait(lambda variant=variant: server.exchange.active == variant)
            assert (ask(server) > 0) == bool(cached)
            server.wait(lambda: server.post.leaving == ())
    with exchanging(path, kept_prompts=kept) as server:
        assert ask(server) > 0


def test_metrics_and_page_say_which_form_answers(tmp_path: Path) -> None:
    with exchanging(with_variant(tmp_path)) as server:
        text = server.http.get("/metrics").text
        for line in (
            'chipwise_variant_active{variant="main"} 1.0',
            'chipwise_variant_active{variant="cool"} 0.0',
            'chipwise_variant_kl_nats{variant="main"} 0.02',
            'chipwise_variant_kl_nats{variant="cool"} 0.05',
            'chipwise_variant_agreement_ratio{variant="cool"} 0.95',
            'chipwise_exchanges_total{reason="variant"} 0.0',
        ):
            assert line in text
        server.exchange.want("cool")
        server.wait(lambda: server.exchange.active == "cool")
        assert server.metric('chipwise_variant_active{variant="cool"}') == 1
        assert 'chipwise_model_info{fingerprint="fp_' in server.http.get("/metrics").text
        page = server.http.get("/").text
        assert "KL 0.05 nats, 95.0% of next tokens, gate pass; fp_" in page
        assert "<h1>tiny:cool" in page


def test_a_variant_that_the_bundle_does_not_have_is_not_missed(tmp_path: Path) -> None:
    with exchanging(write_form(tmp_path / "a")) as server:
        server.exchange.want("cool")
        assert server.text() == said("hello\n", 8, 0)
        assert server.exchange.order(with_variant(tmp_path)).result(10).changed
        # The other bundle has it, and it is still wanted.
        server.wait(lambda: server.exchange.active == "cool")
        assert server.text() == said("hello\n", 8, 1)


def test_options_of_null_models_reach_them() -> None:
    assert said("a\n", 5, 0) != said("a\n", 5, 1)
    assert VOCAB == 260
