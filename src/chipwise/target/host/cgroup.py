"""CgroupLimits: what a container or service may use of the machine (cgroup versions 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from chipwise.target.host import kernel_files

# Version 1 writes "no limit" as the largest page-aligned number.
_NO_LIMIT_BYTES = 1 << 62


@dataclass(frozen=True)
class CgroupLimits:
    """The tightest limits of this process's groups; None where there is none.

    Attributes:
        cpus: CPU time a second of wall time, e.g. 1.5.
        memory_bytes: The most memory.
        memory_free_bytes: What of it is left, page cache that can be dropped counted as free.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None


def limits(root: Path) -> CgroupLimits:
    """Read the limits below ``root`` (``/``, or a recorded tree)."""
    groups = list(_groups(root))
    cpus = [quota for group in groups if (quota := _quota(group)) is not None]
    memory = [limit for group in groups if (limit := _memory(group)) is not None]
    return CgroupLimits(
        cpus=min(cpus, default=None),
        memory_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((free for _, free in memory if free is not None), default=None),
    )


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process's groups and of all groups above them."""
    mount = root / "sys/fs/cgroup"
    for line in (kernel_files.text(root / "proc/self/cgroup") or "0::/").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        base = mount / controllers if controllers else mount
        parts = PurePosixPath(path.lstrip("/")).parts
        if ".." in parts:  # a group outside of this namespace: only what is mounted here counts
            parts = ()
        for depth in range(len(parts), -1, -1):
            yield base.joinpath(*parts[:depth])


def _quota(group: Path) -> float | None:
    words = (kernel_files.text(group / "cpu.max") or "").split()
    if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
        return int(words[0]) / int(words[1]) or None
    quota = kernel_files.integer(group / "cpu.cfs_quota_us")
    period = kernel_files.integer(group / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 and period > 0 else None


def _memory(group: Path) -> tuple[int, int | None] | None:
    for limit_name, used_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit = kernel_files.integer(group / limit_name)
        if limit is not None and 0 < limit < _NO_LIMIT_BYTES:
            used = kernel_files.integer(group / used_name)
            free = None if used is None else min(limit, max(0, limit - used + _droppable(group)))
            return limit, free
    return None


def _droppable(group: Path) -> int:
    for line in (kernel_files.text(group / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file" and value.isdigit():
            return int(value)
    return 0
