"""A bundle of a real model in ONNX Runtime: requests that share it get what each gets alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest

from chipwise.cli.main import main
from chipwise.engine import Batch
from chipwise.serve.server import open_model
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
    with live(model, chunk_tokens=16) as running:
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
