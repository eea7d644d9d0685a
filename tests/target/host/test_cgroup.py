from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.target.host.cgroup import CgroupLimits, limits
from tests.target.host.trees import write

GIB = 1 << 30


def test_no_cgroup_is_no_limit(tmp_path: Path) -> None:
    assert limits(tmp_path) == CgroupLimits()


def test_version_2_takes_the_tightest_of_a_group_and_those_above(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/system.slice/app.service\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/app.service/cpu.max", "max 100000\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/memory.max", f"{4 * GIB}\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/app.service/memory.max", f"{2 * GIB}\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/app.service/memory.current", f"{GIB}\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/app.service/memory.stat", f"anon 5\ninactive_file {GIB // 2}\n")
    assert limits(tmp_path) == CgroupLimits(1.5, 2 * GIB, GIB + GIB // 2)


def test_version_2_inside_a_container_sees_its_own_root(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/../../docker/abc\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "200000 100000\n")
    assert limits(tmp_path).cpus == 2.0


def test_version_1(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n")
    write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    write(tmp_path, "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", f"{GIB}\n")
    write(tmp_path, "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", f"{GIB // 4}\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert limits(tmp_path) == CgroupLimits(0.5, GIB, GIB - GIB // 4)


@pytest.mark.parametrize("quota", ["", "max", "max 100000", "0 0", "-1 100000", "x y", "1 2 3", "0 100000"])
def test_a_quota_that_is_none_is_no_limit(tmp_path: Path, quota: str) -> None:
    write(tmp_path, "sys/fs/cgroup/cpu.max", quota)
    assert limits(tmp_path).cpus is None


def test_memory_used_beyond_the_limit_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, "sys/fs/cgroup/memory.max", f"{GIB}\n")
    write(tmp_path, "sys/fs/cgroup/memory.current", f"{2 * GIB}\n")
    assert limits(tmp_path).memory_free_bytes == 0
