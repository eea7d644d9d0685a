"""What a board does, without pytest: import the device side, inspect a bundle, serve it, ask it, stop it.

Run by scripts/test_device in an environment that has chipwise's base packages only.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import chipwise

DEVICE = ("serve", "bundle", "engine", "telemetry", "target", "report", "files", "errors")
DEVICE_MODEL = ("tokenizer", "chat_template", "scheme", "config", "queries")
HOST_ONLY = ("torch", "transformers", "onnx", "onnx_ir", "onnxscript", "onnxslim", "gguf", "safetensors", "ml_dtypes")
# Imported only when they are asked for, by what says which extra is missing.
OF_EXTRAS = {"chipwise.serve.observe.otlp": "opentelemetry", "chipwise.serve.observe.otlp_exporter": "opentelemetry"}
CHIPWISE = Path(sys.executable).with_name("chipwise")


def check_environment() -> None:
    """None of the packages a board lacks may be importable, or the rest proves nothing."""
    found = [name for name in HOST_ONLY if importlib.util.find_spec(name)]
    require(not found, f"this environment has {', '.join(found)}; it must have the base packages only")
    print(f"Python {sys.version.split()[0]}, base packages only")


def import_device_side() -> None:
    """Every module of the device side can be imported."""
    names = [f"chipwise.model.{name}" for name in DEVICE_MODEL]
    names += [f"chipwise.cli.{name}" for name in ("main", "inspect", "serve", "suite", "targets", "verify")]
    for name in DEVICE:
        package = f"chipwise.{name}"
        if importlib.util.find_spec(package) is None:
            continue
        names.append(package)
        path = getattr(importlib.import_module(package), "__path__", None)
        if path is not None:
            names += [found.name for found in pkgutil.walk_packages(path, f"{package}.")]
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as e:
            lacks = (e.name or "").partition(".")[0]
            require(OF_EXTRAS.get(name) == lacks, f"{name} needs {lacks}, which a board lacks")
    print(f"{len(names)} modules of chipwise {chipwise.__version__} imported")


def try_commands(bundle: Path, suite: Path) -> None:
    """What needs no server; a host command says what it lacks."""
    for arguments, code, text in (
        (["--help"], 0, "serve"),
        (["targets"], 0, "rk3588"),
        (["inspect", str(bundle)], 0, "self test"),
        (["inspect", str(bundle / "files")], 2, "no bundle"),
        (["verify", str(bundle), "--suite", str(suite), "--gate", "certainty=0"], 0, "Keyword fidelity"),
        (["build", "model", "--target", "host", "--output", "out"], 2, "pip install 'chipwise[build]'"),
    ):
        done = subprocess.run([CHIPWISE, *arguments], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        require(done.returncode == code and text in said, f"chipwise {' '.join(arguments)}: {done.returncode} {said}")
    print("commands answer, and `build` says what it needs")


def serve_and_ask(bundle: Path, suite: Path) -> None:
    """Serve on a free port, ask in every way, stop with Ctrl-C."""
    case = json.loads(suite.read_text("utf-8").splitlines()[0])
    server = subprocess.Popen(
        [CHIPWISE, "serve", str(bundle), "--port", "0", "--slots", "2", "--context", "256"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        ask(ready_url(server), case)
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=30)
    finally:
        server.kill()
        server.wait()
    require(server.returncode == 0 and "stopped" in rest, f"the server ended with {server.returncode}: {rest}")
    print("server drained and stopped")


def ready_url(server: subprocess.Popen[str]) -> str:
    """The base URL, once the server says that it is ready."""
    if server.stdout is not None:
        for line in server.stdout:
            if found := re.search(r"ready at (http://\S+)/v1", line):
                return found[1]
    sys.exit(f"the server ended with {server.wait()} before it was ready")


def ask(url: str, case: dict[str, Any]) -> None:
    """A case of the suite is answered right, as a whole and streamed; other routes answer; a bad request is refused."""
    chat: dict[str, Any] = {
        "model": json.loads(fetch(f"{url}/v1/models"))["data"][0]["id"],
        "messages": case["messages"],
        "max_tokens": 64,
        "temperature": 0,
    }
    whole = json.loads(fetch(f"{url}/v1/chat/completions", chat))["choices"][0]["message"]["content"]
    lines = fetch(f"{url}/v1/chat/completions", {**chat, "stream": True}).splitlines()
    events = [line[len("data: ") :] for line in lines if line.startswith("data: ")]
    require(events[-1] == "[DONE]", f"the stream ends with {events[-1]}")
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    streamed = "".join(choice["delta"].get("content") or "" for choice in choices)
    require(streamed == whole, f"streamed {streamed!r}, as a whole {whole!r}")
    require(whole == case["expected"], f"{case['id']} is answered {whole!r}, not {case['expected']!r}")
    print(f"{case['id']} is answered right: {whole}")
    require("chipwise" in fetch(f"{url}/metrics"), "no metrics")
    fetch(f"{url}/health")
    fetch(f"{url}/v1/chat/completions", {**chat, "messages": "hello"}, status=400)


def fetch(url: str, body: dict[str, Any] | None = None, *, status: int = 200) -> str:
    """The text at a URL, which must answer with ``status``; a body makes it a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            found, text = response.status, response.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            found, text = e.code, e.read().decode()
    require(found == status, f"{url} answers {found}: {text}")
    return str(text)


def require(holds: bool, message: str) -> None:
    """End with a message unless something holds."""
    if not holds:
        sys.exit(f"FAILED: {message}")


def main() -> None:
    """Run all steps on the bundle named, whose model gets the first case of the suite named right."""
    bundle, suite = Path(sys.argv[1]), Path(sys.argv[2])
    check_environment()
    import_device_side()
    try_commands(bundle, suite)
    serve_and_ask(bundle, suite)
    print("device tier passed")


if __name__ == "__main__":
    main()
