"""llama.cpp in a process of its own: what ends that process ends no request but the one it dies of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chipwise.engine.isolated import IsolatedEngine, IsolatedSession, Isolation
from chipwise.errors import DependencyError
from chipwise.serve.models.served_model import ServedModel
from tests.engine.isolated.conftest import EAGER, workers
from tests.engine.llamacpp.conftest import SITE, fake_gguf
from tests.serve.fakes import byte_tokenizer
from tests.serve.live import live
from tests.serve.test_llamacpp import VOCAB, alone

# Each starts processes of its own, which import the engine anew.
pytestmark = pytest.mark.slow

PROMPTS = [[10 + i, 20, 30] for i in range(3)]
TOKENS = 40
# A token that neither they nor their answers hold.
ABORTS = min(
    set(range(1, VOCAB)) - {ord(c) for prompt in PROMPTS for c in bytes(prompt).decode() + alone(prompt, TOKENS)}
)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IsolatedSession]:
    """The engine itself over the fake package, which its process finds first."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    engine = IsolatedEngine("llama.cpp", Isolation(backoff=EAGER))
    files = {"gguf": fake_gguf(tmp_path, vocab=VOCAB, abort=ABORTS)}
    opened = engine.open(files, n_slots=4, max_context=256, options={"threads": 1})
    yield opened
    opened.close()
    assert workers() == []


def test_an_assertion_is_replayed_and_only_its_request_fails(session: IsolatedSession) -> None:
    model = ServedModel("isolated", session, byte_tokenizer(), None, 0, process=session)
    with live(model) as server, ThreadPoolExecutor(4) as pool:

        def ask(prompt: list[int]) -> dict:
            body = {"prompt": prompt, "temperature": 0, "max_tokens": TOKENS}
            return server.http.post("/v1/completions", json=body, timeout=60).json()

        deadly = pool.submit(ask, [50, ABORTS, 60])
        answers = list(pool.map(ask, PROMPTS))
        error = deadly.result()["error"]
        assert [answer["choices"][0]["text"] for answer in answers] == [alone(prompt, TOKENS) for prompt in PROMPTS]
        assert "GGML_ASSERT" in error["message"]
        assert session.restarts >= 1


def test_a_package_that_is_missing_there_is_said_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "llama_cpp"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'llama_cpp'\", name='llama_cpp')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    with pytest.raises(DependencyError, match=r"chipwise\[llamacpp\]"):
        IsolatedEngine("llama.cpp").open({"gguf": fake_gguf(tmp_path)}, n_slots=1, max_context=64, options={})
