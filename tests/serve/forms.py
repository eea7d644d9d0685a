"""Bundles of null models that say different things, and a server that exchanges them, in the test's process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, open_bundle, record_self_test
from chipwise.bundle.variants import add_variant
from chipwise.engine.null import NullOptions, NullSession
from chipwise.engine.session import Session
from chipwise.report import Verdict
from chipwise.serve.api.app import create_app
from chipwise.serve.api.site import Site
from chipwise.serve.assembly.assembly import make_site, open_single_shots
from chipwise.serve.assembly.make_exchange import chat_seat, make_exchange, seats_of
from chipwise.serve.connection.http_server import HttpServer
from chipwise.serve.connection.listener import bind, listen, url_of
from chipwise.serve.exchange.exchange import Exchange
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.http.keys import Keys
from chipwise.serve.models.open_model import ModelOpener
from chipwise.serve.models.served_graph import holds_graph
from chipwise.serve.settings import ServeSettings
from chipwise.serve.turns.turns import Turns
from tests.serve.fakes import VOCAB, alone, byte_tokenizer, text_of
from tests.serve.live import LetGo


def write_form(
    out: Path,
    salt: int = 0,
    *,
    name: str = "tiny",
    kl_nats: float = 0.02,
    broken: bool = False,
    add_bos: bool = False,
    tokenizer: bool = True,
    **changes,
) -> Path:
    """A bundle of a null model. Its answers depend on its salt; if broken, its self-test cannot pass."""
    options = {"vocab_size": VOCAB, "salt": salt, **changes.pop("options", {})}
    recorded = {**options, "salt": salt + broken}
    config = {"arch": "llama", "vocab_size": VOCAB, "max_positions": 512, **changes.pop("config", {})}
    fields = {
        "name": name,
        "target": "host",
        "engine": EngineSpec("null", options),
        "model": ModelInfo(config, "gguf", "Null"),
        "self_test": record_self_test(NullSession(1, 64, NullOptions(**recorded)), [3, 1, 4], max_tokens=3),
        "verdicts": (
            Verdict.judge("kl_mean_nats", kl_nats, 0.1, "max"),
            Verdict.judge("top1_agreement", 0.95, 0.9, "min"),
        ),
        **changes,
    }
    with BundleWriter(out, overwrite=True) as writer:
        if tokenizer:
            writer.add_tokenizer(byte_tokenizer(add_bos=add_bos))
        writer.add_bytes("decoder", b"graph %d" % salt, ".onnx")
        return writer.commit(Manifest(**fields))


def with_variant(folder: Path, **cool) -> Path:
    """A bundle with salt 0, and a variant ``cool`` with salt 1."""
    path = write_form(folder / "bundle")
    add_variant(path, write_form(folder / "cool", 1, **{"kl_nats": 0.05, **cool}), "cool")
    return path


def said(prompt: str, max_tokens: int, salt: int) -> str:
    """What the model with a salt says alone."""
    return text_of(alone(list(prompt.encode()), max_tokens, salt=salt))


@dataclass
class Slow:
    """Wraps sessions so that each step takes some time; opening can be held up.

    Attributes:
        step_s: How long a step takes.
        gate: Opening waits until it is set.
        opened: The sessions that were opened.
        most_at_once: The most steps of all of them that ran at once.
    """

    step_s: float = 0.0
    gate: threading.Event | None = None

    def __post_init__(self) -> None:
        self.opened: list[NullSession] = []
        self.opening = threading.Semaphore(0)
        self.most_at_once = self._at_once = 0
        self._lock = threading.Lock()

    def wrap(self, session: Session) -> Session:
        assert isinstance(session, NullSession)
        self.opened.append(session)
        if len(self.opened) > 1 and self.gate is not None:
            self.opening.release()
            assert self.gate.wait(10)
        step = session.step

        def slow(batch):
            with self._lock:
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
            time.sleep(self.step_s)
            with self._lock:
                self._at_once -= 1
            return step(batch)

        session.step = slow  # type: ignore[method-assign]
        return session


@dataclass
class Exchanging:
    """A server whose models can be exchanged."""

    url: str
    http: httpx.Client
    site: Site
    exchange: Exchange
    server: HttpServer

    @property
    def post(self) -> Post[Service]:
        """The language model's."""
        assert self.site.chat is not None
        return self.site.chat

    def metric(self, name: str) -> float:
        lines = self.http.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))

    def ask(self, prompt: str = "hello\n", max_tokens: int = 8, **fields) -> httpx.Response:
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **fields}
        return self.http.post("/v1/completions", json=body)

    def text(self, prompt: str = "hello\n", max_tokens: int = 8) -> str:
        answer = self.ask(prompt, max_tokens)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["choices"][0]["text"])

    def wait(self, condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.002)


@contextmanager
def exchanging(
    path: Path,
    *,
    slow: Slow | None = None,
    opener: ModelOpener | None = None,
    hardware: Hardware | None = None,
    keys: Keys | None = None,
    embeddings: Path | None = None,
    infer: Path | None = None,
    **settings,
) -> Iterator[Exchanging]:
    """Serve bundles on a free port; at the end let the server go, whatever it still does."""
    chosen = ServeSettings(port=0, **settings)
    listener = bind(chosen.host, chosen.port)
    slow, bundle, turns = slow or Slow(), open_bundle(path), Turns()
    opener = opener or ModelOpener(4, 256, wrap=slow.wrap)
    engines = {"threads": opener.threads, "isolate": opener.isolate, "isolation": opener.isolation}
    served, chat = open_single_shots(bundle, embeddings, infer, **engines), None
    if not holds_graph(bundle):
        chat = chat_seat(
            opener.open(bundle), bundle, opener, chosen, when_broken=lambda: server.leave(), keys=keys,
            hardware=hardware, turns=turns,
        )  # fmt: skip
    site = make_site(chosen, None if chat is None else chat.post, served, keys=keys, turns=turns)
    seats = seats_of(site, chat, served.bundles, opener)
    exchange, ready = make_exchange(seats, site.metrics, hardware=hardware, turns=turns), threading.Event()
    site = replace(site, exchange=exchange)
    server = LetGo(
        create_app(site), site.worker, grace_s=chosen.grace_s, on_ready=ready.set, on_drain=exchange.drain,
        on_reload=exchange.reread,
    )  # fmt: skip
    site.worker.start()
    exchange.start()
    listen(listener)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    assert ready.wait(10)
    url = url_of(listener)
    try:
        with httpx.Client(base_url=url, verify=False, timeout=20) as client:
            yield Exchanging(url, client, site, exchange, server)
    finally:
        server.force_exit = True
        server.leave()
        thread.join(10)
        assert exchange.stop(10)
        assert site.worker.stop(10)
        site.close_models()
        assert not thread.is_alive()
