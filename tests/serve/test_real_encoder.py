"""MiniLM in ONNX Runtime behind /v1/embeddings: what transformers computes, whoever else is served."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openai
import pytest

from chipwise.bundle import open_bundle
from chipwise.cli.main import main
from chipwise.serve.models.served_encoder import ServedEncoder, open_encoder
from tests.model.encoder.conftest import minilm
from tests.serve.live import Live, live
from tests.serve.test_server import write_bundle

__all__ = ["minilm"]

pytestmark = pytest.mark.slow

TEXTS = ["Turn on the lamp in the kitchen.", "lamp", "The pump in hall 3 has overheated. " * 8, "打开灯", "Is it warm?"]
# What a text's vector may change by when others share its run, as a share of its length (1).
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def bundle(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("serve") / "minilm"
    args = ["build", str(minilm), "--target", "host", "--recipe", "fp32", "--threads", "1", "-o", str(out)]
    assert main(args) == 0
    return out


@pytest.fixture(scope="module")
def encoder(bundle: Path) -> Iterator[ServedEncoder]:
    opened = open_encoder(open_bundle(bundle), threads=1)
    yield opened
    opened.session.close()


@pytest.fixture(scope="module")
def server(encoder: ServedEncoder) -> Iterator[Live]:
    with live(None, encoder=encoder) as running:
        yield running


def embed(server: Live, texts: list[str]) -> np.ndarray:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.embeddings.create(model=server.site.embeddings.current.model.name, input=texts)
    return np.array([one.embedding for one in answer.data])


def test_vectors_are_those_of_the_model_and_its_settings(server: Live, minilm: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(minilm).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    expected = []
    for text in TEXTS:
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = hidden.mean(dim=0)
        expected.append((mean / mean.norm()).numpy())
    assert np.abs(embed(server, TEXTS) - expected).max() < 1e-5


def test_a_text_has_the_same_vector_alone_and_beside_others(server: Live) -> None:
    alone = np.concatenate([embed(server, [text]) for text in TEXTS])
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(lambda i: embed(server, TEXTS[i % 5 :] + TEXTS[: i % 5]), range(16)))
    for i, vectors in enumerate(many):
        rolled = np.roll(vectors, i % 5, axis=0)
        assert np.linalg.norm(rolled - alone, axis=1).max() < TOLERANCE


def test_a_text_that_is_too_long_is_refused_with_both_numbers(server: Live) -> None:
    with pytest.raises(openai.BadRequestError, match=r"input\[1\]: the text has 302 tokens, .* takes 256 at most"):
        embed(server, ["a", "lamp " * 300])


def test_one_command_serves_a_language_model_and_an_encoder(bundle: Path, tmp_path: Path) -> None:
    chat = write_bundle(tmp_path / "chat")
    args = [sys.executable, "-m", "chipwise.cli.main", "serve", str(chat), "--port", "0", "--embeddings", str(bundle)]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while "/v1/embeddings" not in said:
            line = process.stdout.readline()
            assert line, f"it ended without being ready: {said} {process.stderr.read()}"
            said += line
        url = re.search(r"ready at (http://[0-9.:]+/v1)", said)[1]
        assert "embeddings of 384, texts of 256 tokens" in said
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            names = [model.id for model in client.models.list().data]
            assert names[0] == "tiny/null"
            assert len(client.embeddings.create(model=names[1], input="a").data[0].embedding) == 384
            assert client.completions.create(model=names[0], prompt="a", max_tokens=2).choices[0].finish_reason
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out.splitlines()[-1]) == (0, "stopped")
