"""Jobs of rknn-toolkit2: build a model and simulate it. Its return codes and its exceptions are both checked.

Arrays travel as .npz files without names: one array an input or output, in the graph's order, samples on a first axis.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from rknn.api import RKNN
from ruamel.yaml import YAML

# Python runs this isolated, so its own folder is on no path.
sys.path.insert(0, str(Path(__file__).parent))
from live import answer_calls  # type: ignore[import-not-found]  # it lies beside this file

ANALYSIS = "error_analysis.txt"
# As the toolkit's own graph names them, once it has put fused operators in.
_PRODUCTS = {"Conv", "MatMul", "exMatMul", "Gemm"}
_MOVES = {"Reshape", "Transpose", "Split", "Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "Expand"}


class StepError(Exception):
    """A step of the toolkit failed."""

    def __init__(self, step: str, what: str) -> None:
        super().__init__(what)
        self.step = step


class Steps:
    """Runs the toolkit's steps one by one, and keeps how long each took."""

    def __init__(self, rknn: Any) -> None:
        self.rknn = rknn
        self.duration_s: dict[str, float] = {}

    def run(self, name: str, *arguments: Any, note: str | None = None, **options: Any) -> Any:
        """Call a method of RKNN; a code other than 0 and an exception are failures alike."""
        start = time.monotonic()
        _say(name if note is None else f"{name} {note}")
        try:
            result = getattr(self.rknn, name)(*arguments, **options)
        except Exception as e:
            raise StepError(name, f"raised {_message(e)}") from e
        self.duration_s[name] = self.duration_s.get(name, 0.0) + time.monotonic() - start
        if isinstance(result, int) and result != 0:
            raise StepError(name, f"returned {result}")
        return result


def _say(step: str) -> None:
    """Tell chipwise which step runs, and part the log at it."""
    with open("steps.txt", "a", encoding="utf-8") as stream:
        stream.write(f"{step}\n")
    sys.stdout.write(f"chipwise step: {step}\n")
    sys.stdout.flush()


def _message(error: Exception) -> str:
    """The text of an exception. The toolkit puts a traceback into it; what tells follows its last frame, unindented."""
    lines = str(error).splitlines()
    frames = [index for index, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] + 1 :] if frames else []
    said = [index for index, line in enumerate(after) if line and not line[0].isspace()]
    if not said:
        return f"{type(error).__name__}: {error}"
    return " ".join(after[said[0] :])


def build_simulate(request: dict[str, Any]) -> dict[str, Any]:
    """Build an ONNX file, export it as model.rknn, and run the simulator on inputs.npz if there is one.

    The request's files: ``model`` (ONNX), ``calibration`` and ``inputs`` (.npz; both may be absent), and where the
    model is built for several shapes ``inputs_1``, ``inputs_2``, ... of the further ones. Its values:
    ``config``, ``load`` and ``build``, handed to the toolkit's methods as they are; ``float16``, what a quantized build
    keeps in 16 bits (see ``_float16_tensors``); ``ranges``, ``[low, high]`` by value of the ONNX file, in place of
    those calibrated; ``analysis``, whether to hold each layer against float, on the first of the inputs.
    """
    values, files = request["values"], request["files"]
    steps = Steps(RKNN(verbose=True))
    try:
        kept = _make(steps, values, files)
        artifacts = ["model.rknn"]
        if "inputs" in files:
            if values.get("analysis"):
                artifacts += _analyse(steps, files["inputs"])
            further = [files[f"inputs_{shape}"] for shape in range(1, len(files)) if f"inputs_{shape}" in files]
            artifacts += _simulate(steps, [files["inputs"], *further])
    finally:
        steps.rknn.release()
    return {"values": {"duration_s": steps.duration_s, "float16": kept}, "artifacts": artifacts}


def build_live(request: dict[str, Any]) -> dict[str, Any]:
    """Build and export as ``build_simulate`` does, then simulate whatever inputs chipwise sends.

    The simulator lives only in the process that built. The request's value ``link`` is the socket.
    """
    values = request["values"]
    steps = Steps(RKNN(verbose=True))
    kept = _make(steps, values, request["files"])
    steps.run("init_runtime")

    def simulate(inputs: list[Any]) -> list[Any]:
        # Not through ``steps``: a long session would fill the list of steps.
        found = steps.rknn.inference(inputs=inputs, data_format=["nchw"] * len(inputs))
        if not found:
            raise StepError("inference", "returned no output")
        return list(found)

    return {
        "values": {"duration_s": steps.duration_s, "float16": kept},
        "artifacts": ["model.rknn"],
        "then": lambda: answer_calls(values["link"], simulate),
    }


def _make(steps: Steps, values: dict[str, Any], files: dict[str, str]) -> list[str]:
    """Configure, load, build and export as model.rknn; the names of the tensors kept in float16."""
    steps.run("config", **values["config"])
    steps.run("load_onnx", model=files["model"], **values.get("load", {}))
    kept = _build(steps, values, files)
    if os.path.exists("model.rknn"):
        raise StepError("build", "model.rknn was there before it was exported")
    steps.run("export_rknn", os.path.abspath("model.rknn"))
    return kept


def _build(steps: Steps, values: dict[str, Any], files: dict[str, str]) -> list[str]:
    """Build as a whole, or in the toolkit's two steps if some tensors are kept in float16; the names of these."""
    options = dict(values.get("build", {}))
    if "calibration" not in files:
        steps.run("build", do_quantization=False, **options)
        return []
    dataset = _dataset(files["calibration"])
    if not (values.get("float16") or values.get("ranges")):
        steps.run("build", do_quantization=True, dataset=dataset, **options)
        return []
    steps.run("hybrid_quantization_step1", dataset=dataset, proposal=False, **options)
    stem = os.path.splitext(os.path.basename(files["model"]))[0]
    known = YAML(typ="safe").load(Path(f"{stem}.quantization.cfg"))
    graph = onnx.load(f"{stem}.model", load_external_data=False).graph
    kept = _float16_tensors(graph, values.get("float16") or {})
    kept = [name for name in kept if name in known["quantize_parameters"]]
    known["custom_quantize_layers"] = dict.fromkeys(kept, "float16")
    _set_ranges(known["quantize_parameters"], values.get("ranges") or {})
    YAML().dump(known, Path("chosen.quantization.cfg"))
    # The object that was calibrated refuses the second step: "The model already exists".
    steps.rknn.release()
    steps.rknn = RKNN(verbose=True)
    steps.run("config", **values["config"])
    steps.run(
        "hybrid_quantization_step2",
        model_input=f"{stem}.model", data_input=f"{stem}.data", model_quantization_cfg="chosen.quantization.cfg",
    )  # fmt: skip
    return kept


def _float16_tensors(graph: Any, rules: dict[str, list[str]]) -> list[str]:
    """The tensors of the toolkit's own graph that rules name: an operator whose output is named computes in float16.

    1. ``op_types``: what operators of a type compute.
    2. ``weights``: what reads a constant of a name, and what else multiplies the same activation: the toolkit cuts
       some weights into parts with names of their own.
    3. ``values``: what carries the name of a value of the ONNX file, to which the toolkit appends letters.
    4. Then whatever only moves such a tensor, or it would go through 8 bits on its way.
    """
    types, weights = set(rules.get("op_types", ())), set(rules.get("weights", ()))
    read = {node.input[0] for node in graph.node if weights.intersection(node.input[1:])}
    kept = {}
    for node in graph.node:
        named = any(_stems_from(name, value) for name in node.output for value in rules.get("values", ()))
        multiplies = node.op_type in _PRODUCTS and node.input[0] in read
        moves = node.op_type in _MOVES and node.input[0] in kept
        if node.op_type in types or multiplies or named or moves:
            kept.update(dict.fromkeys(node.output))
    return list(kept)


def _set_ranges(parameters: dict[str, dict[str, Any]], ranges: dict[str, list[float]]) -> None:
    """Give the tensors of 8 bits that carry the name of a value the ends it shall have."""
    for name, one in parameters.items():
        # What lies inside a fused attention carries the name of its result, and has ends of its own.
        inside = "sdpa_" in name
        wanted = None if inside else next((ends for value, ends in ranges.items() if _stems_from(name, value)), None)
        if wanted is None or one.get("qtype") != "asym" or one.get("dtype") != "int8" or len(one["scale"]) != 1:
            continue
        # Scale and zero_point may not be set: the toolkit takes them from these.
        one.update(min=[min(wanted[0], 0.0)], max=[max(wanted[1], 0.0)])


def _analyse(steps: Steps, path: str) -> list[str]:
    """Hold each layer of the first sample against float; the name of the table's file.

    The toolkit keeps every tensor of it as text, of which only the table goes on. A build is good without.
    """
    names = []
    for index, stack in enumerate(_arrays(path)):
        names.append(os.path.abspath(f"analysis_{index}.npy"))
        np.save(names[-1], stack[0])
    try:
        steps.run("accuracy_analysis", inputs=names, output_dir="snapshot")
        os.replace(os.path.join("snapshot", ANALYSIS), ANALYSIS)
    except (StepError, OSError) as e:
        _say(f"no accuracy analysis: {e}".splitlines()[0])
        return []
    finally:
        shutil.rmtree("snapshot", ignore_errors=True)
    return [ANALYSIS]


def _stems_from(name: str, value: str) -> bool:
    return name == value or (name.startswith(value) and name[len(value)] in "-_#")


def _dataset(path: str) -> str:
    """Write each sample as .npy files and list them, one sample a line, as the toolkit reads them."""
    os.mkdir("calibration")
    stacks = _arrays(path)
    lines = []
    for index in range(len(stacks[0])):
        # Relative, for the list is split at blanks and the folder's name may hold one.
        names = [os.path.join("calibration", f"{index}_{position}.npy") for position in range(len(stacks))]
        for name, stack in zip(names, stacks):  # noqa: B905  # Python 3.8 has no strict
            np.save(name, stack[index])
        lines.append(" ".join(names))
    with open("dataset.txt", "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")
    return os.path.abspath("dataset.txt")


def _simulate(steps: Steps, paths: list[str]) -> list[str]:
    """Run the samples of each shape, one file of inputs a shape; the names of the files of outputs."""
    groups = [_arrays(path) for path in paths]
    total, done, written = sum(len(stacks[0]) for stacks in groups), 0, []
    steps.run("init_runtime")
    for shape, stacks in enumerate(groups):
        outputs = []
        for index in range(len(stacks[0])):
            done += 1
            inputs = [stack[index] for stack in stacks]
            # The toolkit takes images as NHWC unless told.
            found = steps.run("inference", note=f"{done}/{total}", inputs=inputs, data_format=["nchw"] * len(inputs))
            if not found:
                raise StepError("inference", f"returned no output for sample {done - 1}")
            outputs.append(found)
        written.append("outputs.npz" if not shape else f"outputs_{shape}.npz")
        np.savez(written[-1], *(np.stack(one) for one in zip(*outputs)))  # noqa: B905  # as above
    return written


def _arrays(path: str) -> list[Any]:
    with np.load(path, allow_pickle=False) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]


def prove(request: dict[str, Any]) -> dict[str, Any]:
    """Build and simulate a model of one node, and compare its output with numpy's."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((64, 32), dtype=np.float32)
    x = rng.standard_normal((1, 1, 64), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "proof",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32])],
        [helper.make_tensor("w", TensorProto.FLOAT, weight.shape, weight.tobytes(), raw=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "proof.onnx")
    np.savez("proof_inputs.npz", x)
    files = {"model": os.path.abspath("proof.onnx"), "inputs": os.path.abspath("proof_inputs.npz")}
    outcome = build_simulate({"values": {"config": {"target_platform": "rk3588"}}, "files": files})
    largest = float(np.max(np.abs(_arrays("outputs.npz")[0] - x @ weight)))
    # float16 accumulates 64 products of about 1; measured 0.004.
    if not largest < 0.1:
        raise StepError("prove", f"the simulator is off by {largest} on a matrix product")
    outcome["values"]["largest_error"] = largest
    return outcome


ACTIONS = {"prove": prove, "build_simulate": build_simulate, "build_live": build_live}
