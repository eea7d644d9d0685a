"""llama.cpp itself, where its package is installed: what it computes, alone and together, and a bundle end to end."""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from chipwise.build.given_file import GivenFile
from chipwise.build.graph_files import GraphFiles
from chipwise.build.graphs import CpuGraphs
from chipwise.cli.main import main
from chipwise.engine import Batch, Session
from chipwise.engine.isolated import IsolatedSession, Isolation
from chipwise.engine.isolated.backoff import BackoffRules
from chipwise.engine.llamacpp.binding import load_binding
from chipwise.model.importer import load_model
from chipwise.serve.models.open_model import open_model
from chipwise.serve.models.prefix_proof import reuses_exactly
from chipwise.target import load_target
from tests.engine.llamacpp.conftest import load_fake
from tests.engine.llamacpp.gguf_models import Kind, byte_gguf, home_agent_gguf
from tests.model.importer.small_models import GEMMA3, LLAMA, PHI3, QWEN2, QWEN3
from tests.serve.live import Live, live

# Frequencies that change at a context they are not opened with are no test of the engine.
DECODERS = [LLAMA, QWEN2, QWEN3, GEMMA3, {**PHI3, "original_max_position_embeddings": 512}]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None and os.environ.get("CHIPWISE_REQUIRE_LLAMACPP") != "1",
        reason="llama-cpp-python is not installed",
    ),
]


@pytest.fixture(scope="module")
def home_gguf(home_agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_agent_gguf(home_agent, tmp_path_factory.mktemp("gguf") / "home.gguf")


@pytest.fixture(scope="module")
def bundle(home_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("llamacpp") / "home"
    args = ["build", str(home_gguf), "--target", "host", "--engine", "llama.cpp", "--cases", "10", "--threads", "1"]
    assert main([*args, "-o", str(out)]) == 0
    return out


def opened(path: Path, n_slots: int = 4, max_context: int = 512) -> Session:
    return GivenFile(path, "llama.cpp").open(n_slots=n_slots, max_context=max_context, threads=1)


def feed(session: Session, slot: int, tokens: list[int], past: int = 0) -> np.ndarray:
    batch = Batch(slot, np.array([tokens], np.int64), np.array([past], np.int64))
    return session.step(batch).logits[0].copy()


def graphs(path: Path, folder: Path) -> GraphFiles:
    """chipwise's own graph of the file's weights in float32."""
    model = load_model(path)
    return CpuGraphs(model.config, model.weights, 512, folder, target=load_target("host"), threads=1).reference()


def kl(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Mean KL divergence of rows of logits, in nats."""
    p, q = (
        one.astype(np.float64) - np.logaddexp.reduce(one.astype(np.float64), -1)[:, None]
        for one in (reference, candidate)
    )
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def texts(path: Path, home_agent: Path) -> list[list[int]]:
    model = load_model(path)
    lines = (home_agent / "queries.jsonl").read_text("utf-8").splitlines()[:12]
    asked = [json.loads(line)["messages"] for line in lines]
    return [model.tokenizer.encode(model.chat_template.render(messages), add_bos=False) for messages in asked]


def test_the_fake_has_the_real_structures_and_functions() -> None:
    real, fake = load_binding(), load_fake()
    assert [(name, ctypes.sizeof(kind)) for name, kind in real.llama_batch._fields_] == [
        (name, ctypes.sizeof(kind)) for name, kind in fake.llama_batch._fields_
    ]
    for name in ("llama_model_params", "llama_context_params"):
        types = dict(getattr(real, name)._fields_)
        for field, kind in getattr(fake, name)._fields_:
            assert ctypes.sizeof(types[field]) == ctypes.sizeof(kind), field
    for name in (one for one in vars(fake) if one.startswith("llama_")):
        assert hasattr(real, name), name
    assert real.llama_max_parallel_sequences() == fake.llama_max_parallel_sequences()


@pytest.mark.parametrize("base", DECODERS, ids=lambda base: base["model_type"])
@pytest.mark.parametrize(("kind", "most"), [(Kind.F32, 1e-5), (Kind.Q8_0, 5e-3)], ids=["F32", "Q8_0"])
def test_it_computes_what_the_files_weights_say(tmp_path: Path, base: dict[str, Any], kind: Kind, most: float) -> None:
    path = byte_gguf(tmp_path / "m.gguf", kind, base=base)
    tokens = [*b"a text of some fifty letters, which nobody has written"]
    with (
        closing(opened(path)) as ours,
        closing(graphs(path, tmp_path).open(n_slots=1, max_context=512, threads=1)) as theirs,
    ):
        batch = Batch(0, np.array([tokens], np.int64), np.array([0], np.int64), "all")
        assert kl(theirs.step(batch).logits[0], ours.step(batch).logits[0]) < most


def test_layers_with_a_window_can_be_copied_and_cut(tmp_path: Path) -> None:
    path = byte_gguf(tmp_path / "m.gguf", Kind.Q8_0, base=GEMMA3)
    tokens = [*b"five times as long as the window of eight"]
    with closing(opened(path)) as session:
        feed(session, 0, tokens)
        wanted = feed(session, 0, [7, 8], len(tokens))
        session.move_slot(0, 2, len(tokens))
        assert np.array_equal(feed(session, 2, [7, 8], len(tokens)), wanted)
        feed(session, 0, [9, 9, 9, 9], len(tokens) - 20)
        assert np.array_equal(feed(session, 0, [*tokens[-20:], 7, 8], len(tokens) - 20), wanted)


@pytest.mark.parametrize(("kind", "most"), [(Kind.Q8_0, 1e-3), (Kind.Q4_0, 5e-3), (Kind.Q4_1, 5e-3)])
def test_the_home_agent_drifts_no_more_than_rounding(home_agent: Path, tmp_path: Path, kind: Kind, most: float) -> None:
    path = home_agent_gguf(home_agent, tmp_path / "home.gguf", kind)
    with (
        closing(opened(path)) as ours,
        closing(graphs(path, tmp_path).open(n_slots=1, max_context=512, threads=1)) as theirs,
    ):
        for tokens in texts(path, home_agent)[:6]:
            batch = Batch(0, np.array([tokens], np.int64), np.array([0], np.int64), "all")
            assert kl(theirs.step(batch).logits[0], ours.step(batch).logits[0]) < most


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.F16])
def test_kv_of_a_prompt_has_the_same_bits_however_it_is_cut(home_agent: Path, tmp_path: Path, kind: Kind) -> None:
    path = home_agent_gguf(home_agent, tmp_path / "home.gguf", kind)
    tokens = np.random.default_rng(1).integers(3, 1400, 300).tolist()
    with closing(opened(path)) as session:

        def cut(size: int) -> np.ndarray:
            for start in range(0, len(tokens), size):
                feed(session, 0, tokens[start : start + size], start)
            return session.save_slot(0, len(tokens)).view(np.uint32)

        whole = cut(128)
        for size in (2, 3, 16, 37, 63, 64, 100):
            assert np.array_equal(cut(size), whole), size


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q4_0, Kind.Q4_1])
def test_a_row_has_the_same_bits_whoever_is_beside_it(home_agent: Path, tmp_path: Path, kind: Kind) -> None:
    path = home_agent_gguf(home_agent, tmp_path / "home.gguf", kind)
    chance, lengths = np.random.default_rng(2), np.array([20, 400, 90, 300])
    with closing(GivenFile(path, "llama.cpp").open(n_slots=4, max_context=512, threads=2)) as session:
        for slot, length in enumerate(lengths):
            tokens = chance.integers(3, 1400, length).tolist()
            for start in range(0, length, 128):
                feed(session, slot, tokens[start : start + 128], start)
        single = [feed(session, slot, [50 + slot], int(lengths[slot])) for slot in range(4)]
        for rows in (2, 3, 4):
            together = session.step(Batch(0, np.arange(50, 50 + rows)[:, None], lengths[:rows])).logits
            assert np.array_equal(together, np.stack(single[:rows])), rows


def test_a_copied_slot_holds_the_same_bits(home_gguf: Path, home_agent: Path) -> None:
    tokens = texts(home_gguf, home_agent)[0]
    with closing(opened(home_gguf)) as session:
        feed(session, 0, tokens)
        wanted = feed(session, 0, [7], len(tokens))
        for target in (1, 3):
            session.move_slot(0, target, len(tokens))
            assert np.array_equal(feed(session, target, [7], len(tokens)), wanted)
        kv = session.save_slot(3, len(tokens))
        feed(session, 2, tokens[::-1])
        session.load_slot(2, kv)
        assert np.array_equal(feed(session, 2, [9], len(tokens) + 1), feed(session, 3, [9], len(tokens) + 1))


@pytest.mark.parametrize("base", [LLAMA, GEMMA3], ids=["llama", "gemma3"])
def test_beginnings_are_taken_over_exactly(tmp_path: Path, base: dict[str, Any]) -> None:
    with closing(opened(byte_gguf(tmp_path / "m.gguf", Kind.Q8_0, base=base))) as session:
        assert reuses_exactly(session)


def test_the_end_of_a_slot_is_taken_back(home_gguf: Path, home_agent: Path) -> None:
    tokens = texts(home_gguf, home_agent)[1]
    with closing(opened(home_gguf)) as session:
        feed(session, 0, tokens)
        wanted = feed(session, 0, [7], len(tokens))
        feed(session, 0, [8, 9, 10], len(tokens) + 1)
        assert np.array_equal(feed(session, 0, [7], len(tokens)), wanted)


@pytest.fixture(scope="module")
def server(bundle: Path) -> Iterator[Live]:
    model = open_model(bundle, n_slots=4, max_context=512, threads=1, isolate=False)
    with live(model, chunk_tokens=16, speculate=False) as running:
        yield running
    model.session.close()


def alone(bundle: Path, prompt: list[int], ends: tuple[int, ...], max_tokens: int) -> list[int]:
    """The greedy answer from the bare session."""
    model = open_model(bundle, n_slots=1, max_context=512, threads=1, isolate=False)
    said, tokens, past = [], prompt, 0
    while len(said) < max_tokens:
        token = int(feed(model.session, 0, tokens, past).argmax())
        past += len(tokens)
        if token in ends:
            break
        said.append(token)
        tokens = [token]
    model.session.close()
    return said


def ask_all(server: Live, asked: list[list[int]], max_tokens: int) -> list[str]:
    async def ask(client: openai.AsyncOpenAI, prompt: list[int]) -> str:
        done = await client.completions.create(
            model=server.service.model.name, prompt=prompt, temperature=0, max_tokens=max_tokens
        )
        return done.choices[0].text

    async def together() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            return await asyncio.gather(*(ask(client, prompt) for prompt in asked))

    return asyncio.run(together())


def test_shared_it_answers_as_it_does_alone(bundle: Path, server: Live, home_gguf: Path, home_agent: Path) -> None:
    asked, tokenizer = texts(home_gguf, home_agent), server.service.model.tokenizer
    wanted = [tokenizer.decode(alone(bundle, prompt, tokenizer.special.eos_ids, 32)) for prompt in asked]
    assert ask_all(server, asked, 32) == wanted


def test_a_shared_beginning_is_computed_once(server: Live, home_gguf: Path, home_agent: Path) -> None:
    tokens = max(texts(home_gguf, home_agent), key=len)
    body = {"prompt": tokens, "temperature": 0, "max_tokens": 8}
    first, second = (server.http.post("/v1/completions", json=body, timeout=60).json() for _ in range(2))
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == len(tokens) - 2
    assert second["choices"][0]["text"] == first["choices"][0]["text"]


def test_enforced_json_holds(server: Live) -> None:
    schema = {
        "type": "object", "properties": {"room": {"type": "string", "maxLength": 8}, "on": {"type": "boolean"}},
        "required": ["room", "on"], "additionalProperties": False,
    }  # fmt: skip
    body = {
        "messages": [{"role": "user", "content": "turn on the light in the kitchen"}], "max_tokens": 80,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
    }  # fmt: skip
    answer = server.http.post("/v1/chat/completions", json=body, timeout=60).json()
    found = json.loads(answer["choices"][0]["message"]["content"])
    assert set(found) == {"room", "on"}
    assert isinstance(found["on"], bool)


def test_verify_runs_on_it(bundle: Path, home_agent: Path, tmp_path: Path, capsys) -> None:
    assert main(["verify", str(bundle), "--suite", str(home_agent / "suite.jsonl"), "-o", str(tmp_path / "r")]) in (
        0,
        1,
    )
    report = json.loads((tmp_path / "r" / "report.json").read_text("utf-8"))
    assert report["quality"]["cases"]
    assert main(["inspect", str(bundle)]) == 0
    assert "llama.cpp" in capsys.readouterr().out


def test_a_process_that_aborts_is_replaced_and_answers_go_on(bundle: Path, home_gguf: Path, home_agent: Path) -> None:
    asked = texts(home_gguf, home_agent)[:4]
    model = open_model(
        bundle, n_slots=4, max_context=512, threads=1, isolation=Isolation(backoff=BackoffRules(first_s=0.01))
    )
    session = model.session
    assert isinstance(session, IsolatedSession)
    with live(model, speculate=False) as server:
        wanted = ask_all(server, asked, 64)
        pid = session.pid
        assert pid is not None

        async def strike() -> list[str]:
            running = asyncio.to_thread(ask_all, server, asked, 64)
            task = asyncio.create_task(running)
            await asyncio.to_thread(server.wait, lambda: server.metric("chipwise_running_requests") >= 1)
            os.kill(pid, signal.SIGABRT)
            return await task

        answers = asyncio.run(strike())
        assert session.restarts == 1
    session.close()
    # What was decoded is fed as a prompt again, and rounds otherwise: the beginnings are the same.
    for before, after in zip(wanted, answers, strict=True):
        assert after
        assert after[:8] == before[:8]
