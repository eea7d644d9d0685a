"""A board in memory, whose files may fail."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from chipwise.telemetry.board_meters import BoardMeters
from chipwise.telemetry.files import in_order
from chipwise.telemetry.reading import Reading
from chipwise.telemetry.state import HardwareState
from chipwise.telemetry.tree import Tree

Content = str | bytes | OSError


class MemoryFiles:
    """Files by path: text, or the error that reading them raises."""

    def __init__(self, files: Mapping[str, Content]) -> None:
        self.files = dict(files)

    def read(self, path: str) -> bytes:
        content = self.files.get(path, FileNotFoundError(errno.ENOENT, "No such file or directory"))
        if isinstance(content, OSError):
            raise content
        return content.encode() if isinstance(content, str) else content

    def names(self, folder: str) -> tuple[str, ...]:
        base = f"{folder}/"
        return in_order(list({path[len(base) :].split("/")[0] for path in self.files if path.startswith(base)}))


def read(files: Mapping[str, Content]) -> HardwareState:
    """The state of such a board."""
    return BoardMeters(Tree(MemoryFiles(files), timeout_s=None)).read(0.0)


def detail(state: HardwareState, name: str) -> Reading:
    """One of the details."""
    return next(reading for reading in state.details if reading.name == name)


RK3588 = {
    "sys/kernel/debug/rknpu/load": "NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,\n",
    "sys/kernel/debug/rknpu/freq": "1000000000\n",
    "sys/class/devfreq/fdab0000.npu/cur_freq": "800000000\n",
    "sys/class/devfreq/fdab0000.npu/available_frequencies": (
        "300000000 400000000 500000000 600000000 700000000 800000000 900000000 1000000000\n"
    ),
    "sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand\n",
    "sys/class/devfreq/fdab0000.npu/load": "100@1000000000Hz\n",
    "sys/class/devfreq/fdab0000.npu/max_freq": "0\n",
    **{
        f"sys/class/thermal/thermal_zone{n}/{name}": f"{value}\n"
        for n, (kind, temp) in enumerate(
            [
                ("soc-thermal", 43400),
                ("bigcore0-thermal", 44300),
                ("bigcore1-thermal", 44300),
                ("littlecore-thermal", 43400),
                ("center-thermal", 42500),
                ("gpu-thermal", 42500),
                ("npu-thermal", 51600),
            ]
        )
        for name, value in (("type", kind), ("temp", temp))
    },
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1008000\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "1800000\n",
    "proc/meminfo": "MemTotal:        8029520 kB\nMemFree:          400000 kB\nMemAvailable:    5123456 kB\n",
    "proc/pressure/cpu": (
        "some avg10=1.50 avg60=0.80 avg300=0.20 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    ),
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
}
"""A recording of the vendor kernel's files on an RK3588."""
