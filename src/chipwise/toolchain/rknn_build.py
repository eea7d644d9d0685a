"""rknn_build_job: the Job that builds an ONNX file for a Rockchip chip and runs it in the toolkit's simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from chipwise.errors import InputError
from chipwise.toolchain.job_spec import Job

Stacks = Sequence[npt.NDArray[Any]]

MODEL = "model.rknn"
OUTPUTS = "outputs.npz"
ANALYSIS = "error_analysis.txt"

WEIGHTLESS = (
    "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "ReduceMean", "Softmax", "Sigmoid", "Tanh", "Erf",
    "exNorm", "exSwish", "exGelu", "exSDPAttention",
)  # fmt: skip
"""Operators without weights, as the toolkit calls them: float16 costs cycles there, and no bytes of the model."""


def rknn_build_job(
    model: Path,
    *,
    config: Mapping[str, Any],
    load: Mapping[str, Any] | None = None,
    build: Mapping[str, Any] | None = None,
    calibration: Stacks | None = None,
    inputs: Stacks | None = None,
    more_inputs: Sequence[Stacks] = (),
    float16: Mapping[str, Sequence[str]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    analysis: bool = False,
    timeout_s: float = 3600.0,
) -> Job:
    """A job whose artifacts are ``model.rknn`` and, with inputs, ``outputs.npz``.

    Arrays are one a graph input or output, in the graph's order, each ``[samples, *shape]``. The outputs lie in
    ``outputs.npz`` as ``arr_0``, ``arr_1``, ...; the verbose log, with the placement table, is the result's ``stdout``.

    Args:
        model: The ONNX file.
        config: Options of the toolkit's ``config``; ``target_platform`` at least.
        load: Options of its ``load_onnx``.
        build: Options of its ``build``, but for ``do_quantization`` and ``dataset``.
        calibration: Samples to quantize with; the model is built in float16 without.
        inputs: Samples to simulate.
        more_inputs: Samples of further shapes, where ``config`` lists several in ``dynamic_input``; what comes of each
            is an artifact of its own, see ``outputs_of``.
        float16: What a quantized build keeps in float16, with the operators that compute it: by ``op_types`` as the
            toolkit calls them, ``weights`` that products read, ``values`` of the ONNX file. The result's value
            ``float16`` lists the toolkit's names of what was kept.
        ranges: The ends of values of the ONNX file, in place of those that calibration saw.
        analysis: Whether to hold each layer of the first sample against float: ``error_analysis.txt`` then is an
            artifact too (see ``rknn_accuracy``), unless the toolkit fails at it.
        timeout_s: The job is stopped after this many seconds.

    Raises:
        InputError: There are no samples, or inputs have different numbers of them.
    """
    further = {f"inputs_{index}": stacks for index, stacks in enumerate(more_inputs, start=1)}
    arrays = _arrays(calibration=calibration, inputs=inputs, **further)
    kept: dict[str, Any] = {}
    if float16:
        kept["float16"] = {rule: list(names) for rule, names in float16.items()}
    if ranges:
        kept["ranges"] = {name: list(ends) for name, ends in ranges.items()}
    made = [MODEL, *(outputs_of(shape) for shape in range(1 + len(further)))] if inputs is not None else [MODEL]
    if analysis and inputs is not None:
        kept["analysis"] = True
    return Job(
        action="build_simulate",
        values={"config": dict(config), "load": dict(load or {}), "build": dict(build or {}), **kept},
        files={"model": model},
        arrays=arrays,
        artifacts=tuple(made),
        timeout_s=timeout_s,
    )


def outputs_of(shape: int) -> str:
    """Name of the artifact that holds what was simulated of one of several shapes, counted from 0."""
    return OUTPUTS if not shape else f"outputs_{shape}.npz"


def _arrays(**given: Stacks | None) -> dict[str, Stacks]:
    arrays: dict[str, Stacks] = {}
    for name, stacks in given.items():
        if stacks is None:
            continue
        counts = {len(stack) for stack in stacks}
        if len(counts) != 1 or 0 in counts:
            raise InputError(f"the {name} hold {sorted(counts)} samples", remedy="give each input as many, at least 1")
        arrays[name] = stacks
    return arrays


def rknn_live_job(
    model: Path,
    *,
    config: Mapping[str, Any],
    calibration: Stacks | None = None,
    float16: Mapping[str, Sequence[str]] | None = None,
    timeout_s: float = 3600.0,
) -> Job:
    """A job for ``open_job``: builds ``model.rknn``, then simulates the inputs of each call, in the graph's order.

    Args:
        model: The ONNX file.
        config: As for ``rknn_build_job``.
        calibration: Likewise.
        float16: Likewise.
        timeout_s: Time for the build.

    Raises:
        InputError: There are no samples, or inputs have different numbers of them.
    """
    job = rknn_build_job(model, config=config, calibration=calibration, float16=float16, timeout_s=timeout_s)
    return replace(job, action="build_live")
