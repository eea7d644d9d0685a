"""CompiledDecoder: a decoder's graphs as a vendor's toolkit compiled them, open in its simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from chipwise.build.float16_plan import Float16Plan
from chipwise.build.simulated_graph import SimulatedDecoderGraph
from chipwise.engine import Session
from chipwise.engine.mask import Mask
from chipwise.engine.portable import PortableSession
from chipwise.model.rknn_file import RknnFile
from chipwise.report import Finding
from chipwise.report.report import RewriteStep
from chipwise.toolchain import LiveJob
from chipwise.toolchain.placement import Placement

RKNN = "rknn"
"""The engine that opens it on the board."""


@dataclass(frozen=True)
class CompiledPart:
    """One graph of a decoder.

    Attributes:
        path: The compiled file.
        source: The ONNX file that it was compiled from.
        file: What the file says of itself.
        job: The process that simulates it.
        placement: Where its operators run; None if the log does not say.
        findings: What to know about its build.
    """

    path: Path
    source: Path
    file: RknnFile
    job: LiveJob
    placement: Placement | None
    findings: tuple[Finding, ...]

    def placed(self) -> str:
        """Where it runs, in words."""
        if self.placement is None:
            return "placed where the log does not say"
        npu = f"{self.placement.npu_operators} operators on the NPU in {self.placement.npu_segments} segment(s)"
        if not self.placement.cpu_operators:
            return f"{npu}, none on the CPU"
        named = ", ".join(sorted({one.layer.op_type for one in self.placement.cpu_operators}))
        return (
            f"{npu}, {len(self.placement.cpu_operators)} on the CPU ({named}), "
            f"which read and write {self.placement.crossing_words()}"
        )


@dataclass(frozen=True)
class CompiledDecoder:
    """The graphs of a decoder for a chip. Its simulators live until the build ends.

    Attributes:
        parts: The graphs by role, ``prefill`` and ``decode``.
        context: Tokens that the cache holds.
        mask_value: The addend of masked scores.
        steps: The proofs that what was compiled is the model.
        plan: What stays in float16; None if nothing does, or everything.
    """

    parts: Mapping[str, CompiledPart]
    context: int
    mask_value: float
    steps: tuple[RewriteStep, ...]
    plan: Float16Plan | None

    @property
    def emulates(self) -> None:
        """Nothing: it is what is deployed."""
        return None

    @property
    def weights_bytes(self) -> int:
        """Size of the compiled files."""
        return sum(part.file.file_bytes for part in self.parts.values())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know about the builds of all parts, each once, and what stays in float16 at what cost."""
        found = dict.fromkeys(finding for part in self.parts.values() for finding in part.findings)
        return (*found, *self._kept())

    @property
    def errors(self) -> int:
        """Findings that mean the build cannot be believed."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def peak_bytes(self) -> int:
        """Most memory that the toolkit took for one part, in bytes."""
        return max(part.job.result.peak_bytes for part in self.parts.values())

    @property
    def duration_s(self) -> float:
        """How long the toolkit took to compile, in seconds."""
        return sum(part.job.result.duration_s for part in self.parts.values())

    @property
    def options(self) -> dict[str, Any]:
        """What the engine must know on the board."""
        window = self._window()
        known = {"toolkit_version": self.parts["decode"].file.toolkit_version, "mask_value": self.mask_value}
        return known if window is None else {**known, "sliding_window": window}

    def open(self, *, n_slots: int, max_context: int, threads: int, yields: bool = False) -> Session:
        """A session over the simulators. Threads are the toolkit's own choice."""
        parts = (self.parts[role] for role in ("prefill", "decode"))
        prefill, decode = (SimulatedDecoderGraph(part.job, part.source) for part in parts)
        mask = Mask(self.mask_value, self._window())
        return PortableSession(prefill, decode, n_slots=n_slots, max_context=max_context, mask=mask)

    def _window(self) -> int | None:
        found = ir.load(self.parts["decode"].source).metadata_props.get("chipwise.sliding_window")
        return None if found is None else int(found)

    def _kept(self) -> Iterator[Finding]:
        if self.plan is None:
            return
        cycles = _float16_cycles(self.parts["prefill"].placement)
        for one in self.plan.kept:
            names = ", ".join(one.group.weights)
            yield Finding(
                rule="kept_in_float16",
                severity="info",
                where=names,
                measured=f"{one.group.weight_count} bytes more{_cost(one.group.weights, cycles)}",
                limit="none",
                message=f"stays in float16: in 8 bits it alone moves the logits by {one.kl_nats:.2g} nats",
                remedy="nothing; a looser --gate keeps fewer",
            )

    def placed(self) -> str:
        """Where it runs, in words."""
        return "; ".join(f"{role}: {part.placed()}" for role, part in self.parts.items())


def _float16_cycles(placement: Placement | None) -> dict[str, int]:
    """The compiler's estimate of each product in float16, by name."""
    layers = [layer for segment in placement.segments for layer in segment.layers] if placement else []
    return {layer.name: layer.total_cycles for layer in layers if layer.dtype == "FLOAT16" and layer.total_cycles}


def _cost(weights: Sequence[str], cycles: Mapping[str, int]) -> str:
    """Cycles of the products of some weights, as far as the compiler keeps their names (``Conv:layers.0...#2``)."""
    stems = [weight.removeprefix("model.").removesuffix(".weight") for weight in weights]
    found = [n for name, n in cycles.items() if any(f":{stem}#" in f"{name}#" for stem in stems)]
    return f", {sum(found)} cycles of a prefill" if found else ""
