"""A bundle of a real model in ONNX Runtime: requests that share it get what each gets alone.

Bits are compared without guessed tokens: a step of several tokens rounds otherwise than one of a single token.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import openai
import psutil
import pytest

from chipwise.cli.main import main
from chipwise.engine import Batch
from chipwise.engine.onnxruntime.fused import FusedSession
from chipwise.serve.models.open_model import open_model
from tests.serve.live import Live, live

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundle(home_agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("serve") / "home"
    args = ["build", str(home_agent), "--target", "host", "--recipe", "w4a16", "--cases", "10", "--threads", "1"]
    assert main([*args, "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def server(bundle: Path) -> Iterator[Live]:
    model = open_model(bundle, n_slots=4, max_context=512, threads=1)
    with live(model, chunk_tokens=16, speculate=False) as running:
        yield running
    model.session.close()


def questions(home_agent: Path) -> list[str]:
    lines = (home_agent / "queries.jsonl").read_text("utf-8").splitlines()[:12]
    found = [json.loads(line) for line in lines]
    return [next(m["content"] for m in q["messages"] if m["role"] == "user") for q in found]


def alone(bundle: Path, asked: list[str], max_tokens: int) -> list[str]:
    """Greedy answers from the bare session, one after the other, each prompt fed at once."""
    model = open_model(bundle, n_slots=1, max_context=512, threads=1)
    answers = []
    for question in asked:
        text = model.chat_template.render([{"role": "user", "content": question}])
        tokens, past, said = model.tokenizer.encode(text, add_bos=False), 0, []
        while len(said) < max_tokens:
            batch = Batch(0, np.array([tokens], dtype=np.int64), np.array([past], dtype=np.int64))
            token = int(model.session.step(batch).logits[0].argmax())
            past += len(tokens)
            if token in model.tokenizer.special.eos_ids:
                break
            said.append(token)
            tokens = [token]
        answers.append(model.tokenizer.decode(said))
    model.session.close()
    return answers


def test_shared_model_answers_as_it_does_alone(bundle: Path, server: Live, home_agent: Path) -> None:
    asked = questions(home_agent)

    async def ask(client: openai.AsyncOpenAI, question: str) -> str:
        messages = [{"role": "user", "content": question}]
        stream = await client.chat.completions.create(
            model=server.service.model.name, messages=messages, temperature=0, max_tokens=40, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, question) for question in asked))

    answers = asyncio.run(ask_all())
    assert answers == alone(bundle, asked, 40)
    assert server.metric("chipwise_batch_size_rows_sum") > server.metric("chipwise_batch_size_rows_count")
    assert all(answer.strip() for answer in answers)


def test_choices_that_share_a_prompt_say_what_each_says_alone(bundle: Path, server: Live) -> None:
    """Choice i is computed from KV that choice 0 fed: the same tokens as from a prompt of its own."""
    prompt = np.random.default_rng(3).integers(0, 200, 90).tolist()
    body = {"prompt": prompt, "max_tokens": 24, "temperature": 2}
    before = server.metric("chipwise_reused_tokens_total")
    together = server.http.post("/v1/completions", json={**body, "n": 4, "seed": 5}).json()
    assert server.metric("chipwise_reused_tokens_total") == before + 3 * (len(prompt) - 2)
    texts = [choice["text"] for choice in together["choices"]]
    assert len(set(texts)) == 4
    model = replace(open_model(bundle, n_slots=4, max_context=512, threads=1), reuses_prefixes=False)
    with live(model, chunk_tokens=16, speculate=False) as computing:
        for n in (1, 4):
            answer = computing.http.post("/v1/completions", json={**body, "n": n, "seed": 5}).json()
            assert [choice["text"] for choice in answer["choices"]] == texts[:n]
        assert computing.metric("chipwise_reused_tokens_total") == 0
    model.session.close()


def kv_of(session: FusedSession, slot: int, tokens: int) -> list[np.ndarray]:
    pool = session._pool
    return [
        pool.view(layer, part, slot, 1)[0, :, :tokens].copy()
        for layer in range(pool.layers)
        for part in ("key", "value")
    ]


def fill(session: FusedSession, slot: int, tokens: np.ndarray, past: int, chunk: int) -> np.ndarray:
    for start in range(0, len(tokens), chunk):
        part = tokens[None, start : start + chunk]
        logits = session.step(Batch(slot, part, np.array([past + start]))).logits[0].copy()
    return logits


@pytest.mark.parametrize("reused", [2, 16, 77, 100, 148])
def test_a_copied_beginning_has_the_bits_of_a_computed_one(bundle: Path, reused: int) -> None:
    """Whatever the chunks it was computed in, as long as they are of two tokens or more."""
    model = open_model(bundle, n_slots=3, max_context=512, threads=1)
    session = model.session
    assert model.reuses_prefixes
    assert isinstance(session, FusedSession)
    chance = np.random.default_rng(reused)
    shared, rest, other = (chance.integers(0, 200, n) for n in (reused, 150 - reused, 40))
    computed = fill(session, 0, np.concatenate([shared, rest]), 0, 150)
    expected = kv_of(session, 0, 150)
    fill(session, 2, np.concatenate([shared, other]), 0, max(2, reused // 2))
    session.move_slot(2, 1, reused)
    copied = fill(session, 1, rest, reused, 50)
    assert np.array_equal(copied, computed)
    for one, two in zip(kv_of(session, 1, 150), expected, strict=True):
        assert np.array_equal(one, two)
    session.close()


def test_a_shared_system_prompt_is_computed_once_and_answers_are_the_same(bundle: Path) -> None:
    messages = [{"role": "system", "content": "You control a home. " * 12}, {"role": "user", "content": "lights on"}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 12, "logprobs": True}

    def answers(reuse: bool) -> list[dict]:
        opened = open_model(bundle, n_slots=4, max_context=512, threads=1)
        model = replace(opened, reuses_prefixes=reuse)
        with live(model, reserved_slots=1, parking_slots=1, speculate=False) as server:
            found = []
            for question in ("lights on", "doors shut", "lights on"):
                messages[1]["content"] = question
                found.append(server.http.post("/v1/chat/completions", json=body).json())
            assert (server.metric("chipwise_reused_tokens_total") > 0) == reuse
        model.session.close()
        return found

    computed, reused = answers(False), answers(True)
    assert [one["choices"] for one in computed] == [one["choices"] for one in reused]
    cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in reused]
    assert cached[0] == 0
    assert all(count > 0.5 * one["usage"]["prompt_tokens"] for count, one in zip(cached[1:], reused[1:], strict=True))
    assert [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in computed] == [0, 0, 0]


def test_kept_prompts_give_the_answer_that_a_prefill_would(bundle: Path, tmp_path: Path) -> None:
    text = "Turn on the light in the kitchen and close the blinds. " * 4
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 12, "logprobs": True}
    answers = []
    for _ in range(2):
        model = open_model(bundle, n_slots=3, max_context=512, threads=1)
        with live(model, kept_prompts=tmp_path / "kept", speculate=False) as server:
            answers.append(server.http.post("/v1/chat/completions", json=body).json())
        server.keep_prompts()
        model.session.close()
    assert answers[0]["choices"] == answers[1]["choices"]
    first, second = (answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers)
    assert first == 0
    assert second == answers[1]["usage"]["prompt_tokens"] - 2


def test_ten_thousand_tokens_take_no_memory(bundle: Path) -> None:
    model = open_model(bundle, n_slots=6, max_context=512, threads=1)
    process, chance = psutil.Process(), np.random.default_rng(0)
    with live(model, reserved_slots=1, parking_slots=1, speculate=False) as server:

        def generate(tokens: float) -> None:
            end = server.metric("chipwise_generated_tokens_total") + tokens
            while server.metric("chipwise_generated_tokens_total") < end:
                prompts = [chance.integers(0, 200, 60).tolist() for _ in range(4)]
                bodies = [{"prompt": prompt, "max_tokens": 450, "temperature": 1.5} for prompt in prompts]
                with ThreadPoolExecutor(4) as pool:
                    answers = pool.map(lambda body: server.http.post("/v1/completions", json=body), bodies)
                    assert all(answer.status_code == 200 for answer in answers)

        # All slots have been full once: the system gives memory to a page when it is first written.
        generate(3000)
        for slot in range(6):
            fill(model.session, slot, np.zeros(512, np.int64), 0, 512)
        generate(500)
        before_bytes = process.memory_info().rss
        generate(10_000)
        assert process.memory_info().rss - before_bytes < 2 << 20
    model.session.close()


def test_guessed_tokens_change_no_answer(bundle: Path, home_agent: Path) -> None:
    """Greedy and with seeds, freely and under a schema. The answers of this model are sure enough for any rounding."""
    asked = questions(home_agent)
    schema = {"type": "object", "properties": {"device": {"enum": ["lamp", "heater"]}, "on": {"type": "boolean"}}}
    schema |= {"required": ["device", "on"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    model = open_model(bundle, n_slots=2, max_context=512, threads=1)
    found = []
    for speculate in (True, False):
        with live(model, speculate=speculate) as server:
            bodies = [{"messages": [{"role": "user", "content": text}], "max_tokens": 40} for text in asked]
            bodies = [{**body, "temperature": 0, "logprobs": True} for body in bodies]
            bodies += [{**body, "temperature": 0.5, "seed": 3} for body in bodies[:4]]
            bodies += [{**body, "response_format": wanted} for body in bodies[:4]]
            choices = [server.http.post("/v1/chat/completions", json=body).json()["choices"][0] for body in bodies]
            found.append([(one["message"]["content"], one["finish_reason"]) for one in choices])
            found.append([entry["logprob"] for one in choices for entry in one["logprobs"]["content"]])
            if speculate:
                assert server.metric("chipwise_speculated_tokens_total") > 0
    assert found[0] == found[2]
    # 8-bit activations: where a sum rounds otherwise, a rounding may tip.
    assert np.abs(np.array(found[1]) - np.array(found[3])).max() < 0.3


def test_the_engine_is_killed_and_four_answers_go_on(
    bundle: Path, home_agent: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked, max_tokens = [f"Tell me everything, {question}" for question in questions(home_agent)[:4]], 200
    begun = threading.Semaphore(0)
    model = open_model(bundle, n_slots=4, max_context=512, threads=1, isolate=True)
    with live(model, chunk_tokens=64) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)

        def ask(question: str) -> str:
            prompt = model.chat_template.render([{"role": "user", "content": question}])
            stream = client.completions.create(
                model=model.name, prompt=prompt, temperature=0, max_tokens=max_tokens, stream=True
            )
            said = []
            for chunk in stream:
                said.append(chunk.choices[0].text)
                begun.release()
            return "".join(said)

        def answers() -> list[str]:
            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(ask, asked))

        undisturbed = answers()
        for kills in range(1, 6):
            begun = threading.Semaphore(0)
            with ThreadPoolExecutor(1) as pool:
                disturbed = pool.submit(answers)
                assert begun.acquire(timeout=30)
                os.kill(model.session.pid, signal.SIGKILL)
                assert disturbed.result(60) == undisturbed
            server.wait(lambda: server.metric("chipwise_engine_up") == 1, 60)
            assert server.metric("chipwise_engine_restarts_total") == kills
            # A small model may have said all before the signal came; then once more.
            if any(record.args[0] for record in caplog.records if "are fed again" in record.message):
                break
        else:
            pytest.fail("no answer was ever on its way")
        client.close()
    model.session.close()
