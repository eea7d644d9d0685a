"""The host as a target."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from chipwise.target import catalog_file
from chipwise.target.chip import Chip
from chipwise.target.compute_unit import ComputeUnit
from chipwise.target.constraints import Constraints
from chipwise.target.host.machine import Machine, look
from chipwise.target.host.speed import HostSpeed, Measure, cache_folder, host_speed
from chipwise.target.memory_region import MemoryRegion
from chipwise.target.provenance import Provenance
from chipwise.target.quantity import Quantity
from chipwise.target.target import Target

NAME = "host"


def detect(
    *,
    common: Path,
    root: Path = Path("/"),
    usable: frozenset[int] | None = None,
    cache: Path | None = None,
    measure: Measure = "once",
) -> Target:
    """Describe the machine this runs on.

    Args:
        common: Folder of shared constraints, for what ONNX Runtime takes.
        root: The folder that holds ``proc`` and ``sys``; ``/``, or a recorded tree.
        usable: CPUs this process may run on; None to ask the operating system.
        cache: Folder the measured figures are kept in; None for the user's cache folder.
        measure: Whether to measure what is not in the cache: ``never``, ``once``, or ``again``.
    """
    machine = look(root, usable)
    speed = host_speed(machine, cache_folder() if cache is None else cache, measure)
    told = Provenance("measured", "the kernel: /proc and /sys", datetime.now(timezone.utc).date().isoformat())
    chip = Chip(
        name=NAME,
        vendor=machine.cpu.vendor,
        engines=("onnxruntime",),
        units=(_unit(machine, speed, told),),
        memory=_memory(machine, speed, told),
        constraints=_constraints(common, speed),
        notes=(machine.cpu.model, *([machine.board] if machine.board else [])),
    )
    return Target(chip)


def _unit(machine: Machine, speed: HostSpeed | None, told: Provenance) -> ComputeUnit:
    parts = [f"{n} x {kind}" for kind, n in machine.cpu.clusters.items()] if len(machine.cpu.clusters) > 1 else []
    parts.append(f"{machine.logical_cores} logical cores may be used")
    if machine.physical_cores is not None:
        parts.append(f"{machine.physical_cores} physical")
    if machine.quota_cpus is not None:
        parts.append(f"a container limits them to {machine.quota_cpus:g} CPUs")
    return ComputeUnit(
        name="cpu",
        kind="cpu",
        count=Quantity(machine.threads, "1", told),
        clock_hz=Quantity(machine.clock_hz, "Hz", told) if machine.clock_hz else None,
        peak_ops={"int8": speed.int8_ops, "fp32": speed.fp32_ops} if speed else {},
        features=machine.cpu.features,
        note=", ".join(parts),
    )


def _memory(machine: Machine, speed: HostSpeed | None, told: Provenance) -> tuple[MemoryRegion, ...]:
    main = MemoryRegion(
        name="dram",
        role="main",
        size_bytes=_bytes(machine.memory_bytes, told),
        available_bytes=_bytes(machine.available_bytes, told),
        read_bps=speed.read_bps if speed else None,
    )
    caches = (MemoryRegion(n, "cache", size_bytes=Quantity(b, "B", told)) for n, b in machine.cache_bytes.items())
    return (main, *caches)


def _constraints(common: Path, speed: HostSpeed | None) -> Constraints:
    constraints = catalog_file.read_constraints(common / "onnxruntime.toml")
    if speed is None or speed.opset_max is None:
        return constraints
    return replace(constraints, opset_max=speed.opset_max)


def _bytes(value: int | None, told: Provenance) -> Quantity | None:
    return Quantity(value, "B", told) if value else None
