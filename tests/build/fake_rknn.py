"""A stand-in for rknn-toolkit2: our Python computes what the simulator would, with faults planted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from chipwise.toolchain.environment import FOLDER_VARIABLE
from chipwise.toolchain.runners import JOB_MAIN

CHIP = "rk3566"
"""The chip that the compiled file is for, whatever is asked."""

_TESTS = Path(__file__).parent.parent
_RUNNER = """
import contextlib, json, os, shutil, sys, time
import numpy as np
import onnxruntime

FAULTS = json.loads(FAULTS_TEXT)


def build_simulate(request):
    shutil.copy(request["files"]["model"], SEEN + ".onnx")
    count = {name: len(np.load(path)["arr_0"]) for name, path in request["files"].items() if path.endswith(".npz")}
    with open(SEEN, "w") as stream:
        json.dump({"values": request["values"], "count": count}, stream)
    with open(LOG) as stream:
        sys.stdout.write(stream.read())
    time.sleep(FAULTS.get("sleep_s", 0))
    if FAULTS.get("abort"):
        sys.stderr.write("E build: Not Support Dtype: 2\\n")
        sys.stderr.flush()
        os.abort()
    if not FAULTS.get("no_file"):
        shutil.copyfile(COMPILED, "model.rknn")
    session = onnxruntime.InferenceSession(request["files"]["model"], providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    noise, written = np.random.default_rng(0), []
    for shape, key in enumerate(sorted(name for name in request["files"] if name.startswith("inputs"))):
        with np.load(request["files"][key]) as file:
            stacks = [file[name] for name in file.files]
        runs = [session.run(None, dict(zip(names, sample))) for sample in zip(*stacks)]
        outputs = [np.stack(one) for one in zip(*runs)]
        gain = FAULTS.get("gain", 1) if shape >= FAULTS.get("from_shape", 0) else 1
        outputs = [y * gain + FAULTS.get("noise", 0) * noise.standard_normal(y.shape) for y in outputs]
        if FAULTS.get("nan"):
            outputs[0][:] = np.nan
        written.append("outputs.npz" if not shape else "outputs_%d.npz" % shape)
        np.savez(written[-1], *(y[: FAULTS.get("samples")] for y in outputs * FAULTS.get("copies", 1)))
    with open("steps.txt", "a") as stream:
        stream.write("inference %d/%d\\n" % (len(runs), len(runs)))
    return {"values": {"duration_s": {}}, "artifacts": ["model.rknn", *written]}


def build_live(request):
    values, files = request["values"], request["files"]
    session = onnxruntime.InferenceSession(files["model"], providers=["CPUExecutionProvider"])
    given = session.get_inputs()
    with np.load(files["calibration"]) if "calibration" in files else contextlib.nullcontext({}) as file:
        samples = [[list(file[name].shape), str(file[name].dtype)] for name in file]
    wanted = [[one.name, one.shape, one.type] for one in given]
    with open(SEEN + "l", "a") as stream:
        stream.write(json.dumps({"values": values, "samples": samples, "inputs": wanted}) + "\\n")
    with open(LOG) as stream:
        sys.stdout.write(stream.read())
    sys.stdout.flush()
    if FAULTS.get("abort"):
        os.abort()
    shutil.copyfile(COMPILED, "model.rknn")
    noise = np.random.default_rng(0)

    def simulate(arrays):
        if FAULTS.get("dies"):
            raise RuntimeError("the simulator is gone")
        found = session.run(None, dict(zip([one.name for one in given], arrays)))
        found = [y * FAULTS.get("gain", 1) + FAULTS.get("noise", 0) * noise.standard_normal(y.shape) for y in found]
        return [y.astype(np.float32) for y in found[: FAULTS.get("outputs")]]

    sys.path.insert(0, RUNNERS)
    from live import answer_calls
    return {"values": {"duration_s": {}, "float16": []}, "artifacts": ["model.rknn"],
            "then": lambda: answer_calls(values["link"], simulate)}


ACTIONS = {"build_simulate": build_simulate, "build_live": build_live}
"""


def install(folder: Path, *, log: str = "attention_rk3588_w8a8", **faults: float) -> dict[str, str]:
    """Put a toolkit into ``folder``.

    Args:
        folder: Where it lies.
        log: Name of the recorded log that it prints.
        faults: ``abort``, ``no_file``, ``nan``: whether to; ``gain`` and ``noise`` of the outputs, ``samples`` it
            returns, ``copies`` of the outputs, ``from_shape``: the first shape of whose outputs ``gain`` holds,
            ``sleep_s`` before it answers. Of a live job: ``dies`` when it is asked,
            ``outputs`` it returns.

    Returns:
        The environment variables by which it is found.
    """
    runner, python = folder / "runner.py", folder / "rknn" / "bin" / "python"
    paths = {
        "LOG": _TESTS / "toolchain" / "rknn_logs" / f"{log}.log",
        "COMPILED": _TESTS / "model" / "rknn" / "conv_rk3566_w8a8.rknn",
        "SEEN": folder / "seen.json",
        "RUNNERS": JOB_MAIN.parent,
    }
    head = [f"{name} = {str(path)!r}" for name, path in paths.items()]
    python.parent.mkdir(parents=True)
    runner.write_text("\n".join([*head, f"FAULTS_TEXT = {json.dumps(faults)!r}", _RUNNER]))
    # In place of the toolkit's own runner, which the job names last.
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$1" "$2" "$3" "{runner}"\n')
    python.chmod(0o755)
    return {FOLDER_VARIABLE: str(folder)}


def seen(folder: Path) -> dict[str, dict[str, object]]:
    """What the toolkit was asked: ``values``, and the ``count`` of samples by the name of the file."""
    found: dict[str, dict[str, object]] = json.loads((folder / "seen.json").read_text())
    return found


def seen_live(folder: Path) -> list[dict[str, Any]]:
    """What each live job was asked: ``values``, the shape and type of its ``samples``, its graph's ``inputs``."""
    return [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]
