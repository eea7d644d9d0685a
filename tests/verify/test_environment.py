from __future__ import annotations

from chipwise.target.host.cpuinfo import CpuInfo
from chipwise.target.host.machine import Machine
from chipwise.verify.environment import hardware


def test_says_what_is_known() -> None:
    cpu = CpuInfo("Cortex-A76", "ARM", (), frozenset())
    board = Machine(cpu, "A Board", 8, 8, None, 2.4e9, 8 << 30, None, {})
    assert hardware(board) == {
        "board": "A Board",
        "cpu": "Cortex-A76",
        "cores": "8",
        "clock": "2.40 GHz",
        "memory": "8.0 GiB",
    }
    container = Machine(cpu, "", 8, None, 2.0, None, None, None, {})
    assert hardware(container) == {"cpu": "Cortex-A76", "cores": "2 of 8"}
