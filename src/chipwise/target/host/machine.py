"""Machine: the computer this runs on, as its kernel describes it."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chipwise.target.host import cgroup, cpuinfo, kernel_files
from chipwise.target.host.cpuinfo import CpuInfo

_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Machine:
    """What can be known without measuring. None is unknown.

    Attributes:
        cpu: The processor.
        board: The board's name from the device tree; empty on a PC.
        logical_cores: CPUs this process may run on.
        physical_cores: The same without the second threads of a core.
        quota_cpus: CPU time a second that a container limits this process to.
        clock_hz: The highest clock of the fastest usable core.
        memory_bytes: Main memory, or what the container limits it to.
        available_bytes: What of it is free.
        cache_bytes: The largest cache of each level that holds data, e.g. ``{"l1d": 32768, "l2": 524288}``.
    """

    cpu: CpuInfo
    board: str
    logical_cores: int
    physical_cores: int | None
    quota_cpus: float | None
    clock_hz: float | None
    memory_bytes: int | None
    available_bytes: int | None
    cache_bytes: dict[str, int]

    @property
    def threads(self) -> int:
        """Threads that can run at once: the logical cores, cut to the container's quota."""
        if self.quota_cpus is None:
            return self.logical_cores
        return max(1, min(self.logical_cores, math.ceil(self.quota_cpus)))


def look(root: Path = Path("/"), usable: frozenset[int] | None = None) -> Machine:
    """Describe the machine.

    Args:
        root: The folder that holds ``proc`` and ``sys``; ``/``, or a recorded tree.
        usable: CPUs this process may run on; None to ask the operating system.
    """
    if usable is None:
        usable = _affinity()
    cpu = cpuinfo.parse(kernel_files.text(root / "proc/cpuinfo") or "", usable)
    if not cpu.model:
        cpu = CpuInfo(platform.processor() or platform.machine(), cpu.vendor, cpu.clusters, cpu.features)
    limits = cgroup.limits(root)
    total, available = _memory(root)
    return Machine(
        cpu=cpu,
        board=kernel_files.text(root / "proc/device-tree/model") or "",
        logical_cores=len(usable),
        physical_cores=_physical(root, usable),
        quota_cpus=limits.cpus,
        clock_hz=max((hz for n in usable if (hz := _clock(root, n))), default=None),
        memory_bytes=_least(total, limits.memory_bytes),
        available_bytes=_least(available, limits.memory_free_bytes),
        cache_bytes=_caches(root, usable),
    )


def _affinity() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))  # macOS has no affinity


def _physical(root: Path, usable: Iterable[int]) -> int | None:
    cores = set()
    for n in usable:
        topology = root / _CPUS / f"cpu{n}/topology"
        core = kernel_files.integer(topology / "core_id")
        if core is None:
            return None
        # Arm numbers the cores of each cluster anew.
        cluster = kernel_files.text(topology / "cluster_id")
        cores.add((kernel_files.text(topology / "physical_package_id"), cluster, core))
    return len(cores)


def _clock(root: Path, n: int) -> float | None:
    khz = kernel_files.integer(root / _CPUS / f"cpu{n}/cpufreq/cpuinfo_max_freq")
    return khz * 1e3 if khz and khz > 0 else None


def _caches(root: Path, usable: Iterable[int]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for n in usable:
        for index in sorted((root / _CPUS / f"cpu{n}/cache").glob("index*")):
            level, kind = kernel_files.integer(index / "level"), kernel_files.text(index / "type")
            size = kernel_files.text(index / "size") or ""
            if level is not None and kind in ("Data", "Unified") and size[:-1].isdigit() and size.endswith("K"):
                name = f"l{level}d" if kind == "Data" else f"l{level}"
                sizes[name] = max(sizes.get(name, 0), int(size[:-1]) * 1024)
    return {name: size for name, size in sorted(sizes.items()) if size}


def _memory(root: Path) -> tuple[int | None, int | None]:
    found = {}
    for line in (kernel_files.text(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[0].isdigit() and words[1] == "kB":
            found[name] = int(words[0]) * 1024
    if "MemTotal" in found:
        return found["MemTotal"] or None, found.get("MemAvailable")
    try:  # macOS has no /proc
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
    except (OSError, ValueError):
        return None, None


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)
