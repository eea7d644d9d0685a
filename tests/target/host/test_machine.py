from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.target.host.machine import look
from tests.target.host import trees

GIB = 1 << 30


def test_x86(tmp_path: Path) -> None:
    machine = look(trees.x86(tmp_path), frozenset(range(4)))
    assert (machine.logical_cores, machine.physical_cores, machine.threads) == (4, 2, 4)
    assert machine.memory_bytes == 8 * GIB
    assert machine.available_bytes == 6 * GIB
    assert machine.cache_bytes == {"l1d": 48 << 10, "l2": 2 << 20, "l3": 30 << 20}
    assert machine.clock_hz is None
    assert machine.quota_cpus is None


def test_a_board_with_two_kinds_of_cores(tmp_path: Path) -> None:
    machine = look(trees.rk3588(tmp_path), frozenset(range(8)))
    assert machine.cpu.clusters == {"cortex-a55": 4, "cortex-a76": 4}
    assert machine.physical_cores == 8
    assert machine.clock_hz == 2.4e9
    assert machine.board == "Orange Pi 5"
    assert look(tmp_path, frozenset(range(4))).clock_hz == 1.8e9


def test_affinity_limits_the_cores(tmp_path: Path) -> None:
    machine = look(trees.x86(tmp_path), frozenset({0, 1}))
    assert (machine.logical_cores, machine.physical_cores) == (2, 1)


@pytest.mark.parametrize(("quota", "threads"), [("150000", 2), ("100000", 1), ("20000", 1), ("900000", 4)])
def test_a_quota_limits_the_threads(tmp_path: Path, quota: str, threads: int) -> None:
    trees.write(trees.x86(tmp_path), "sys/fs/cgroup/cpu.max", f"{quota} 100000")
    assert look(tmp_path, frozenset(range(4))).threads == threads


def test_a_container_limits_the_memory(tmp_path: Path) -> None:
    trees.write(trees.x86(tmp_path), "sys/fs/cgroup/memory.max", str(2 * GIB))
    trees.write(tmp_path, "sys/fs/cgroup/memory.current", str(GIB))
    machine = look(tmp_path, frozenset(range(4)))
    assert (machine.memory_bytes, machine.available_bytes) == (2 * GIB, GIB)


def test_a_system_without_proc_and_sys_is_described_all_the_same(tmp_path: Path) -> None:
    machine = look(tmp_path, frozenset({0, 1}))
    assert machine.logical_cores == 2
    assert machine.cpu.model  # from the platform module
    assert machine.memory_bytes is None or machine.memory_bytes > 0  # from sysconf
    assert machine.cache_bytes == {}
    assert machine.physical_cores is None


def test_damaged_files_are_unknown(tmp_path: Path) -> None:
    trees.write(trees.x86(tmp_path), "proc/meminfo", "MemTotal: lots\nMemAvailable\n")
    trees.write(tmp_path, "sys/devices/system/cpu/cpu0/topology/core_id", "?")
    trees.write(tmp_path, "sys/devices/system/cpu/cpu0/cache/index0/size", "big")
    machine = look(tmp_path, frozenset({0}))
    assert machine.physical_cores is None
    assert "l1d" not in machine.cache_bytes
    assert machine.available_bytes is None


def test_this_machine() -> None:
    machine = look()
    assert machine.threads >= 1
    assert machine.memory_bytes is None or machine.memory_bytes > 1 << 20
