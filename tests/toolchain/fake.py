"""A toolchain without a venv: its Python is ours by a small script, its runner a file with planted faults."""

from __future__ import annotations

import sys
from pathlib import Path

from chipwise.toolchain.environment import Environment
from chipwise.toolchain.spec import InstallStep, Licence, Pin, ToolchainSpec

OURS = (sys.version_info[0], sys.version_info[1])

RUNNER = """
import os, subprocess, sys, time
import json as _json


def answer(artifacts=(), **values):
    return {"values": values, "artifacts": list(artifacts)}


def write(name, data=b"content"):
    with open(name, "wb") as stream:
        stream.write(data)


def echo(request):
    write("out.bin")
    os.write(1, b"from descriptor 1\\n")
    os.write(2, b"from descriptor 2\\n")
    sizes = {name: os.path.getsize(path) for name, path in request["files"].items()}
    return answer(["out.bin"], got=request["values"], sizes=sizes, cwd=os.getcwd(), tmp=os.environ["TMPDIR"],
                  path=sys.path, chipwise="chipwise" in sys.modules)


def load(request):
    import numpy as np
    with np.load(request["files"]["inputs"]) as file:
        return answer(sums=[float(file[name].sum()) for name in file.files])


def nothing(request):
    return answer()


def empty(request):
    write("out.bin", b"")
    return answer(["out.bin"])


def old(request):
    write("out.bin")
    os.utime("out.bin", (1e9, 1e9))
    return answer(["out.bin"])


def linked(request):
    os.symlink(request["values"]["to"], "out.bin")
    return answer(["out.bin"])


def hard_linked(request):
    os.link(request["values"]["to"], "out.bin")
    return answer(["out.bin"])


def outside(request):
    return answer([request["values"]["to"]])


def raises(request):
    raise ValueError("no such\\nscheme")


def error_line(request):
    os.write(2, b"E build: the cause\\nI bye\\nI bye\\nI bye\\nI bye\\n")
    raise RuntimeError("returned -1")


def abort(request):
    os.write(2, b"\\x1b[31mNot Support Dtype: 2\\x1b[0m\\n")
    os.abort()


def steps(request):
    for step in ("load", "build 1/2", "build 2/2"):
        with open("steps.txt", "a") as stream:
            stream.write(step + "\\n")
        time.sleep(0.1)
    if request["values"]["abort"]:
        os.abort()
    return answer()


def exits(request):
    os._exit(request["values"]["status"])


def late_abort(request):
    write("out.bin")
    with open("request.json") as stream:
        token = _json.load(stream)["token"]
    with open("result.json", "w") as stream:
        _json.dump({"token": token, "ok": True, "values": {}, "artifacts": ["out.bin"]}, stream)
    os.abort()


def forged(request):
    with open("result.json", "w") as stream:
        stream.write(request["values"]["text"])
    os._exit(0)


def hang(request):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    stray = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
    with open(request["values"]["pids"], "w") as stream:
        stream.write("%d %d %d" % (os.getpid(), child.pid, stray.pid))
    os.write(2, b"layer 7 of 9\\n")
    time.sleep(600)


def orphan(request):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return answer(pid=child.pid)


def babble(request):
    line = b"x" * 999 + b"\\n"
    for _ in range(100000):
        os.write(1, line * 10)
    return answer()


def garbage(request):
    os.write(1, bytes(range(256)) * 5000)
    write("out.bin")
    return answer(["out.bin"])


def memory(request):
    block = bytearray(os.urandom(1)) * (request["values"]["megabytes"] << 20)
    child = subprocess.Popen([sys.executable, "-c", "import time; b = b'1' * (64 << 20); time.sleep(1)"])
    child.wait()
    return answer(n=len(block))


def prove(request):
    return answer()


ACTIONS = {name: value for name, value in list(globals().items()) if callable(value) and not name.startswith("_")}
"""


def spec(folder: Path, *pins: str, **changes: object) -> ToolchainSpec:
    """A toolchain whose runner lies in ``folder``; one step of pip a pin."""
    runner = folder / "runner.py"
    if not runner.exists():
        runner.write_text(RUNNER)
    steps = tuple(InstallStep(pin, (Pin.parse(pin),), size_bytes=1000) for pin in pins)
    values: dict[str, object] = {
        "name": "fake",
        "purpose": "fail in every way",
        "chips": ("chip",),
        "licence": Licence("Fake Licence", "https://example.org/licence", proprietary=True),
        "pythons": (OURS,),
        "machines": ("x86_64", "aarch64", "arm64"),
        "steps": steps,
        "imports": ("json",),
        "runner": runner,
        "proof_timeout_s": 20.0,
        "error_line": "^E ",
    }
    return ToolchainSpec(**{**values, **changes})  # type: ignore[arg-type]


def environment(folder: Path, *pins: str, **changes: object) -> Environment:
    """An environment that looks installed; its interpreter is a script that starts ours."""
    made = Environment(spec(folder, *pins, **changes), folder / "tool chains")
    made.python.parent.mkdir(parents=True)
    made.python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    made.python.chmod(0o755)
    return made
