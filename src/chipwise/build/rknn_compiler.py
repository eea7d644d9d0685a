"""RknnCompiler: a graph through Rockchip's own toolkit, compiled for the chip and simulated in one job."""

from __future__ import annotations

import re
import secrets
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from chipwise.build.attempt import Algorithm, Attempt
from chipwise.build.compiled_graph import CompiledGraph, Outputs
from chipwise.build.samples import Samples
from chipwise.build.shape_sets import ShapeSet
from chipwise.errors import ToolchainError
from chipwise.files import writing
from chipwise.model.rknn_file import RknnFile, read_rknn_file
from chipwise.quant.calibration import Progress
from chipwise.quant.recipe import Recipe
from chipwise.rewrite.pass_ import Feed
from chipwise.target import Target
from chipwise.toolchain import Environment, JobResult, run_job
from chipwise.toolchain.placement import findings_of, placements_of
from chipwise.toolchain.rknn_accuracy import RknnLayerError, read_accuracy
from chipwise.toolchain.rknn_build import ANALYSIS, MODEL, WEIGHTLESS, outputs_of, rknn_build_job
from chipwise.toolchain.rknn_log import read_rknn_log
from chipwise.toolchain.rknn_remedies import remedy_for

_FLOAT = "fp16"
_QUANTIZED = frozenset({"w8a8", "w8a16", "w4a16"})
_REMEDY = (
    "write what it names in another form, give an input that never changes its value with --fix NAME=VALUE, try "
    "another --recipe, or measure the chip's arithmetic with --emulate"
)
_INFERENCE = re.compile(r"inference (\d{1,9})/(\d{1,9})")


@dataclass(frozen=True)
class RknnCompiler:
    """Compiles one graph for one chip.

    Attributes:
        environment: The installed toolkit.
        target: The chip.
        folder: Where files are written.
        timeout_s: A job of the toolkit is stopped after this many seconds.
        shapes: Several shapes that one file is compiled for; empty for the graph's own.
    """

    environment: Environment
    target: Target
    folder: Path
    timeout_s: float
    shapes: tuple[ShapeSet, ...] = ()

    def takes(self, recipe: Recipe) -> bool:
        """Whether the toolkit has a type for a recipe."""
        return recipe.scheme == _FLOAT or recipe.scheme in _QUANTIZED

    def make(self, attempt: Attempt, samples: Samples, progress: Progress) -> CompiledGraph:
        """Compile, calibrated on the one part of the samples, and simulate the other.

        Raises:
            OutputError: The disk does not take it.
            ToolchainError: The toolkit failed, or what it made is not what was asked for.
        """
        recipe, graph = attempt.recipe, ir.load(attempt.graph.path).graph

        def tell(step: str) -> None:
            if (match := _INFERENCE.fullmatch(step)) is not None:
                progress(int(match[1]), int(match[2]))

        of_shapes = [stacks(graph, feeds) for feeds in samples.held_out_by_shape]
        job = rknn_build_job(
            attempt.graph.path,
            config={
                "target_platform": self.target.chip.name,
                **self._listed(graph),
                **quantization(recipe, attempt.algorithm),
            },
            calibration=None if recipe.scheme == _FLOAT else stacks(graph, samples.calibration),
            inputs=of_shapes[0],
            more_inputs=of_shapes[1:],
            float16=_float16_rules(attempt),
            ranges=attempt.ranges,
            # In floating point there is nothing to repair; of several shapes nothing can be.
            analysis=recipe.integer_activations and not self.shapes,
            timeout_s=self.timeout_s,
        )
        # Beside the output, where there is room for it: the temporary folder may lie in memory.
        try:
            with run_job(self.environment, job, keep=self.folder, on_step=tell) as result:
                made = self._read(result, graph, attempt, [len(feeds) for feeds in samples.held_out_by_shape])
                shutil.rmtree(result.folder, ignore_errors=True)
        except ToolchainError as e:
            raise ToolchainError(
                e.what, where=e.where, remedy=e.remedy or remedy_for(e.what, _REMEDY), log_tail=e.log_tail
            ) from e
        return made

    def _read(self, result: JobResult, graph: ir.Graph, attempt: Attempt, counts: Sequence[int]) -> CompiledGraph:
        log = read_rknn_log("\n".join(path.read_text("utf-8", "replace") for path in (result.stdout, result.stderr)))
        outputs = tuple(self._outputs(result.artifacts[outputs_of(shape)], graph, n) for shape, n in enumerate(counts))
        # Attempts at one recipe lie beside each other until one is kept.
        path = self.folder / f"{attempt.recipe.name}.{secrets.token_hex(4)}.rknn"
        with writing(path):
            shutil.move(result.artifacts[MODEL], path)
        return CompiledGraph(
            path=path,
            source=attempt.graph.path,
            file=self._file(path, graph),
            outputs=outputs,
            placements=placements_of(log),
            findings=findings_of(log),
            duration_s=result.duration_s,
            peak_bytes=result.peak_bytes,
            losses=_losses(result),
            shapes=self.shapes,
        )

    def _listed(self, graph: ir.Graph) -> dict[str, Any]:
        """The toolkit's option for several shapes."""
        if not self.shapes:
            return {}
        names = [str(value.name) for value in graph.inputs]
        return {"dynamic_input": [[list(shape.inputs[name]) for name in names] for shape in self.shapes]}

    def _file(self, path: Path, graph: ir.Graph) -> RknnFile:
        file = read_rknn_file(path)
        # What it left out could not be fed on the board.
        for kind, ours, theirs in (("inputs", graph.inputs, file.inputs), ("outputs", graph.outputs, file.outputs)):
            if len(ours) != len(theirs):
                found = ", ".join(tensor.name for tensor in theirs) or "none"
                raise self._error(f"the compiled file has the {kind} {found}, the graph has {len(ours)}")
        if self.target.chip.name not in file.targets:
            raise self._error(f"the compiled file is for {', '.join(file.targets) or 'no chip'}")
        return file

    def _outputs(self, path: Path, graph: ir.Graph, n: int) -> Outputs:
        try:
            with np.load(path, allow_pickle=False) as file:
                found = [file[f"arr_{index}"] for index in range(len(file.files))]
        except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as e:
            raise self._error(f"the simulator's outputs cannot be read ({e})") from e
        names = [str(value.name) for value in graph.outputs]
        if len(found) != len(names):
            raise self._error(f"the simulator returned {len(found)} outputs, the graph has {len(names)}")
        if any(len(stack) != n for stack in found):
            raise self._error(f"the simulator returned {[len(stack) for stack in found]} samples of {n}")
        return dict(zip(names, found, strict=True))

    def _error(self, what: str) -> ToolchainError:
        return ToolchainError(what, where=f"{self.environment.spec.name} for {self.target.name}")


def quantization(recipe: Recipe, algorithm: Algorithm = "normal") -> dict[str, Any]:
    """The options of the toolkit's ``config`` for a recipe; none for float16."""
    if recipe.scheme == _FLOAT:
        return {}
    method = f"group{recipe.group_size}" if recipe.group_size else "channel" if recipe.per_channel else "layer"
    return {"quantized_dtype": recipe.scheme, "quantized_method": method, "quantized_algorithm": algorithm}


def _float16_rules(attempt: Attempt) -> dict[str, Sequence[str]] | None:
    rules: dict[str, Sequence[str]] = {}
    if attempt.weightless_float16:
        rules["op_types"] = WEIGHTLESS
    if attempt.float16:
        rules["values"] = attempt.float16
    return rules or None


def _losses(result: JobResult) -> tuple[RknnLayerError, ...]:
    path = result.artifacts.get(ANALYSIS)
    return () if path is None else read_accuracy(path.read_text("utf-8", "replace"))


def stacks(graph: ir.Graph, feeds: Sequence[Feed]) -> list[npt.NDArray[Any]]:
    """The samples of each input in the graph's order and type, each ``[samples, *shape]``."""
    made = []
    for value in graph.inputs:
        dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
        made.append(np.stack([np.asarray(feed[str(value.name)]).astype(dtype) for feed in feeds]))
    return made
