"""CompiledGraph: what a vendor's toolkit made of a graph, and what its simulator computed with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from chipwise.build.shape_sets import ShapeSet
from chipwise.model.rknn_file import RknnFile
from chipwise.report import Finding
from chipwise.toolchain.placement import Placement
from chipwise.toolchain.rknn_accuracy import RknnLayerError

Outputs = Mapping[str, npt.NDArray[Any]]
"""Arrays by the name of the graph's output."""


@dataclass(frozen=True)
class CompiledGraph:
    """A graph compiled for a chip.

    Attributes:
        path: The compiled file, as the chip's runtime loads it.
        source: The ONNX file that it was compiled from.
        file: What the file says of itself.
        outputs: What the simulator computed, of each shape it was compiled for: by output ``[samples, *shape]``, in the
            order of the samples.
        placements: Where its operators run, for each graph of it.
        findings: What to know about the build; one of severity ``error`` means that it cannot be believed.
        duration_s: How long compiling and simulating took, in seconds.
        peak_bytes: Most memory of the toolkit's processes at once, in bytes.
        losses: Each layer against float, by the toolkit's own account.
        shapes: The shapes it was compiled for; empty for one.
    """

    path: Path
    source: Path
    file: RknnFile
    outputs: tuple[Outputs, ...]
    placements: tuple[Placement, ...]
    findings: tuple[Finding, ...]
    duration_s: float
    peak_bytes: int
    losses: tuple[RknnLayerError, ...] = ()
    shapes: tuple[ShapeSet, ...] = ()

    @property
    def emulates(self) -> None:
        """Nothing: it is what is deployed."""
        return None

    @property
    def errors(self) -> int:
        """Findings that mean the build cannot be believed."""
        return sum(finding.severity == "error" for finding in self.findings)

    def samples(self, shape: int = 0) -> Iterator[Outputs]:
        """The outputs of one sample after the other, of one of the shapes."""
        stacks = self.outputs[shape]
        for index in range(len(next(iter(stacks.values()), ()))):
            yield {name: stack[index] for name, stack in stacks.items()}

    def placed(self) -> str:
        """Where it runs, in words; of several graphs the first, which is of the largest shape."""
        if not self.placements:
            return "unknown: the log shows no placement"
        first = self.placements[0]
        npu = f"{first.npu_operators} operators on the NPU in {first.npu_segments} segment(s)"
        if not first.cpu_operators:
            return f"{npu}, none on the CPU"
        return f"{npu}, {len(first.cpu_operators)} on the CPU, which read and write {first.crossing_words()}"
