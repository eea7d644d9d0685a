"""A bundle on disk, served by the command line in a process of its own."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from chipwise.bundle import BundleWriter, EngineSpec, Manifest, ModelInfo, record_self_test
from chipwise.cli.main import main
from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import BundleError, InputError
from chipwise.serve.connection.listener import bind, listen
from chipwise.serve.models.open_model import open_model
from tests.engine.rknn.test_self_test import write_graph_bundle
from tests.serve.fakes import TEMPLATE, VOCAB, alone, byte_tokenizer, text_of

OPTIONS = {"vocab_size": VOCAB}


def write_bundle(
    out: Path, *, tokenizer: bool = True, created: str = "2026-01-02T03:04:05+00:00", engine: str = "null"
) -> Path:
    """A bundle of the null engine, or one that computes the same."""
    session = NullSession(1, 64, NullOptions(**OPTIONS))
    manifest = Manifest(
        name="tiny/null",
        target="host",
        engine=EngineSpec(engine, OPTIONS if engine == "null" else {}),
        model=ModelInfo({"arch": "llama", "max_positions": 128}, "gguf", "Null", None),
        self_test=record_self_test(session, [3, 1, 4], max_tokens=3),
        created=created,
    )
    with BundleWriter(out) as writer:
        if tokenizer:
            files = byte_tokenizer().to_files()
            writer.add_bytes("tokenizer", files["tokenizer.json"], ".json")
            writer.add_bytes("special_tokens", files["special_tokens.json"], ".json")
        template = f'{{"template": "{TEMPLATE}", "bos_token": "", "eos_token": ""}}'
        writer.add_bytes("chat_template", template.replace("\n", "\\n").encode(), ".json")
        return writer.commit(manifest)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "bundle")


class Command:
    """A running ``chipwise serve``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""
        while "curl" not in self.said:
            line = process.stdout.readline()
            assert line, f"it ended without being ready: {self.said} {process.stderr.read()}"
            self.said += line
        self.url = re.search(r"ready at (http://[0-9.:]+)/v1", self.said)[1]

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@contextmanager
def command(bundle: Path, *options: str) -> Iterator[Command]:
    args = [sys.executable, "-m", "chipwise.cli.main", "serve", str(bundle), "--port", "0", *options]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield Command(process)
    finally:
        process.kill()
        process.communicate()


def test_command_says_how_to_ask_and_ends_cleanly(bundle: Path) -> None:
    with command(bundle, "--slots", "3", "--context", "99") as running:
        assert "serving tiny/null: 3 requests at once, 99 tokens each" in running.said
        curl = shlex.split(running.said.splitlines()[-1])
        assert curl[:2] == ["curl", f"{running.url}/v1/chat/completions"]
        response = httpx.post(curl[1], content=curl[-1], headers={"content-type": "application/json"})
        assert response.status_code == 200
        assert response.json()["model"] == "tiny/null"
        assert response.json()["system_fingerprint"].startswith("fp_")
        assert httpx.get(f"{running.url}/v1/models/tiny/null").json()["created"] == 1767323045
        prompt = [1, 2, 3]
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 20}
        answer = httpx.post(f"{running.url}/v1/completions", json=body).json()
        assert answer["choices"][0]["text"] == text_of(alone(prompt, 20))
        running.process.send_signal(signal.SIGTERM)
        code, out, err = running.end()
    assert (code, out) == (0, "stopped\n")
    assert "ending: no new requests" in err
    assert "Traceback" not in err


SLOW = """
import sys, time
from chipwise.cli.main import main
from chipwise.engine.null import NullSession
step = NullSession.step
def slow(self, batch):
    time.sleep(0.2 if self.steps > 8 else 0)
    return step(self, batch)
NullSession.step = slow
sys.exit(main(sys.argv[1:]))
"""


def test_second_signal_ends_at_once(bundle: Path) -> None:
    args = [sys.executable, "-c", SLOW, "serve", str(bundle), "--port", "0"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        running = Command(process)
        with httpx.Client(base_url=running.url) as client:
            body = {"prompt": [5], "stream": True, "max_tokens": 100, "seed": 1}
            with client.stream("POST", "/v1/completions", json=body) as response:
                next(response.iter_lines())
                process.send_signal(signal.SIGINT)
                assert "ending" in process.stderr.readline()
                start = time.monotonic()
                process.send_signal(signal.SIGINT)
                assert process.wait(5) == -signal.SIGINT
                assert time.monotonic() - start < 2
    finally:
        process.kill()
        process.communicate()


LATE = """
import sys
from chipwise.cli.main import main
from chipwise.serve.connection.http_server import HttpServer
startup, known = HttpServer.startup, set()
async def note(self, sockets=None):
    await startup(self, sockets)
    known.update(sys.modules)
HttpServer.startup = note
code = main(sys.argv[1:])
print("loaded late:", *sorted(set(sys.modules) - known), file=sys.stderr)
sys.exit(code)
"""


def test_what_requests_need_is_loaded_before_the_first(bundle: Path) -> None:
    args = [sys.executable, "-c", LATE, "serve", str(bundle), "--port", "0"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        running = Command(process)
        with httpx.Client(base_url=running.url) as client:
            chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
            tool = {"type": "function", "function": {"name": "go", "parameters": {"type": "object"}}}
            bodies = [
                chat, {**chat, "stream": True}, {**chat, "logprobs": True, "top_logprobs": 2, "seed": 1, "n": 2},
                {**chat, "response_format": {"type": "json_object"}}, {**chat, "tools": [tool]}, {"messages": []}, {},
            ]  # fmt: skip
            said = [client.post("/v1/chat/completions", json=body).status_code for body in bodies]
            assert said == [200, 200, 200, 200, 400, 400, 400]
            assert client.post("/v1/completions", json={"prompt": "a", "stream": True}).status_code == 200
            assert [client.get(path).status_code for path in ("/", "/metrics", "/health", "/v1/models")] == [200] * 4
        process.send_signal(signal.SIGTERM)
        code, _, err = running.end()
    finally:
        process.kill()
        process.communicate()
    assert code == 0
    assert err.splitlines()[-1].strip() == "loaded late:"


def test_port_in_use_is_one_line_before_anything_is_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = bind("127.0.0.1", 0)
    listen(taken)
    port = taken.getsockname()[1]
    # The bundle does not exist: the port is looked at first.
    assert main(["serve", str(tmp_path / "none"), "--port", str(port)]) == 2
    taken.close()
    assert capsys.readouterr().err == (
        f"error: 127.0.0.1:{port}: the port is in use; stop what uses it, or choose another --port\n"
    )


def test_missing_bundle_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "none"), "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no such folder" in error


def test_prompts_that_could_not_be_kept_are_one_line_at_the_start(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(bundle), "--port", "0", "--keep-prompts", "/proc/within"]) != 0
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "/proc/within" in error


@pytest.mark.parametrize(
    "options",
    [
        ["--slots", "0"],
        ["--port", "70000"],
        ["--context", "x"],
        ["--grace", "-1"],
        ["--grace", "nan"],
        ["--grace", "inf"],
        ["--engine-timeout", "3", "--no-isolate"],
        # Options that mean nothing without another one.
        ["--engine-timeout", "3"],
        ["--sustained", "0.6"],
        ["--sustained", "0.7", "--trip", "80"],
        ["--air", "30"],
        ["--air", "30", "--board", "/"],
        ["--shared-memory"],
        ["--fallback", "resident"],
        ["--board", ""],
    ],
)
def test_bad_options(bundle: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(bundle), "--port", "0", *options]) == 2
    error = capsys.readouterr().err
    assert options[0] in error
    if "Usage" not in error:
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--slots", "2"],
        ["--context", "64"],
        ["--fallback", "off"],
        ["--reserve", "1"],
        ["--parking", "1"],
        ["--sinks", "4"],
        ["--speculate", "off"],
        ["--keep-prompts", "kept"],
        ["--board", "sim:rk3576"],
        ["--trip", "70"],
        ["--peak-watts", "8"],
        ["--clock-floor", "0.5"],
    ],
)
def test_options_of_language_models_are_refused_for_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = write_graph_bundle(tmp_path / "graph")
    assert main(["serve", str(graph), "--port", "0", *options]) == 2
    assert (
        capsys.readouterr().err == f"error: {options[0]}: it is for language models, and conv is none; leave it out\n"
    )


def test_a_limit_for_processes_is_taken_where_any_model_has_one(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The graph's engine has; that it is opened, and fails for want of a board, shows that the option was taken."""
    graph = write_graph_bundle(tmp_path / "graph")
    for models in ([str(graph)], [str(bundle), "--infer", str(graph)]):
        assert main(["serve", *models, "--port", "0", "--engine-timeout", "5"]) != 0
        error = capsys.readouterr().err
        assert "the engine 'rknn'" in error
        assert "--engine-timeout" not in error


def test_context_is_the_models_unless_asked(bundle: Path) -> None:
    model = open_model(bundle, n_slots=2, max_context=None, threads=None)
    assert (model.session.max_context, model.session.n_slots) == (128, 2)
    assert (model.name, model.created_s) == ("tiny/null", 1767323045)


def test_context_too_short_for_the_self_test(bundle: Path) -> None:
    with pytest.raises(InputError, match="too short for the self-test"):
        open_model(bundle, n_slots=1, max_context=4, threads=None)


def test_bundle_without_a_tokenizer(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "b", tokenizer=False)
    with pytest.raises(BundleError, match="has no tokenizer"):
        open_model(bundle, n_slots=1, max_context=64, threads=None)


def test_bundle_with_a_date_that_is_none(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "b", created="yesterday")
    with pytest.raises(BundleError, match="'yesterday' is no date"):
        open_model(bundle, n_slots=1, max_context=64, threads=None)


def test_threads_go_to_the_engine(bundle: Path) -> None:
    # The null engine has no threads and says so.
    with pytest.raises(InputError, match="no option 'threads'"):
        open_model(bundle, n_slots=1, max_context=64, threads=2)


def test_a_vendors_engine_has_a_process_of_its_own_unless_asked_otherwise(tmp_path: Path, site: Path) -> None:
    theirs, ours = write_bundle(tmp_path / "theirs", engine="hashing"), write_bundle(tmp_path / "ours")
    asked = {"n_slots": 1, "max_context": 64, "threads": None}
    model = open_model(theirs, **asked)
    assert model.process is model.session
    model.session.close()
    # This process does not even find the engine.
    with pytest.raises(InputError, match="no engine named 'hashing'"):
        open_model(theirs, **asked, isolate=False)
    assert open_model(ours, **asked).process is None
