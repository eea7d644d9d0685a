"""One graph through Rockchip's toolkit: built, simulated, and where its operators were placed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.rewrite.pass_ import Feed
from chipwise.toolchain import Environment, default_root, get_toolchain, run_job
from chipwise.toolchain.placement import placements_of
from chipwise.toolchain.rknn_build import OUTPUTS, rknn_build_job
from chipwise.toolchain.rknn_log import read_rknn_log

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Simulated:
    """What came of it.

    Attributes:
        outputs: What was simulated, by output: ``[samples, *shape]``.
        size_bytes: Of the .rknn file.
        operators: Operators of the compiled graph.
        cpu_operators: Those left to the CPU.
        build_s: Wall time of loading, building and simulating.
        peak_bytes: Largest memory of the job's processes; None where it could not be read.
    """

    outputs: Arrays
    size_bytes: int
    operators: int
    cpu_operators: int
    build_s: float
    peak_bytes: int | None

    def samples(self) -> Iterator[Arrays]:
        """The outputs of one sample after the other."""
        for index in range(len(next(iter(self.outputs.values())))):
            yield {name: stack[index] for name, stack in self.outputs.items()}


def toolkit_version() -> str:
    """The toolkit's name and version, as chipwise pins it."""
    pins = (pin for step in get_toolchain("rknn").steps for pin in step.pins)
    return "rknn-toolkit2 " + next(pin.version for pin in pins if pin.package == "rknn-toolkit2")


def simulate(
    path: Path, chip: str, options: Mapping[str, str], calibration: Sequence[Feed], inputs: Sequence[Feed]
) -> Simulated:
    """Build a graph for a chip and simulate it.

    Args:
        path: The ONNX file; sizes that it leaves open are fixed to those of the samples.
        chip: The target platform.
        options: Of the toolkit's ``config``; none builds in float16.
        calibration: What it is quantized with.
        inputs: What is simulated.

    Raises:
        ToolchainError: The toolkit failed.
    """
    graph = ir.load(path).graph
    names = [str(value.name) for value in graph.inputs if value.name not in graph.initializers]
    job = rknn_build_job(
        path,
        config={"target_platform": chip, **options},
        load=_fixed(graph, names, inputs[0]),
        calibration=_stacks(graph, names, calibration) if options else None,
        inputs=_stacks(graph, names, inputs),
        timeout_s=1800.0,
    )
    began = time.perf_counter()
    with run_job(Environment(get_toolchain("rknn"), default_root()), job) as done:
        built_s = time.perf_counter() - began
        with np.load(done.artifacts[OUTPUTS]) as arrays:
            found = [arrays[f"arr_{index}"] for index in range(len(arrays.files))]
        size_bytes = (done.folder / "model.rknn").stat().st_size
        log = read_rknn_log(done.stdout.read_text("utf-8", "replace") + done.stderr.read_text("utf-8", "replace"))
        peak_bytes = done.peak_bytes
    placement = placements_of(log)[0]
    return Simulated(
        outputs=dict(zip([str(value.name) for value in graph.outputs], found, strict=True)),
        size_bytes=size_bytes,
        operators=sum(len(segment.layers) for segment in placement.segments),
        cpu_operators=len(placement.cpu_operators),
        build_s=built_s,
        peak_bytes=peak_bytes,
    )


def _fixed(graph: ir.Graph, names: Sequence[str], sample: Feed) -> dict[str, Any]:
    """What ``load_onnx`` must be told of a graph with symbolic sizes."""
    shapes = [value.shape for value in graph.inputs if value.name in names]
    if all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes):
        return {}
    return {"inputs": list(names), "input_size_list": [list(np.shape(sample[name])) for name in names]}


def _stacks(graph: ir.Graph, names: Sequence[str], feeds: Sequence[Feed]) -> list[npt.NDArray[Any]]:
    dtypes = {str(v.name): v.dtype.numpy() if v.dtype is not None else np.dtype(np.float32) for v in graph.inputs}
    return [np.stack([np.asarray(feed[name]).astype(dtypes[name]) for feed in feeds]) for name in names]
