"""Kernel files as machines print them, laid out below a folder that stands in for ``/``."""

from __future__ import annotations

from pathlib import Path

X86_CPU = """\
processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
cpu MHz\t\t: 2100.000
flags\t\t: fpu vme sse4_2 fma avx f16c avx2 avx512f avx_vnni avx512_bf16 avx512_vnni amx_bf16 amx_tile amx_int8
bugs\t\t: sysret_ss_attrs
"""

# RK3588: CPUs 0 to 3 are Cortex-A55 (0xd05), 4 to 7 are Cortex-A76 (0xd0b). There is no model name.
ARM_CPU = """\
processor\t: {n}
BogoMIPS\t: 48.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x{variant}
CPU part\t: 0x{part}
CPU revision\t: 0
"""


def write(root: Path, path: str, text: str) -> None:
    """Write one file of the tree."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def x86(root: Path) -> Path:
    """Two cores with two threads each, 8 GiB, one cgroup without limits."""
    write(root, "proc/cpuinfo", "\n".join(X86_CPU.format(n=n) for n in range(4)))
    write(root, "proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\nMemAvailable:    6291456 kB\n")
    write(root, "proc/self/cgroup", "0::/\n")
    for n in range(4):
        cpu = f"sys/devices/system/cpu/cpu{n}"
        write(root, f"{cpu}/topology/core_id", f"{n // 2}\n")
        write(root, f"{cpu}/topology/physical_package_id", "0\n")
        for index, (level, kind, size) in enumerate(
            [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "30720K")]
        ):
            write(root, f"{cpu}/cache/index{index}/level", f"{level}\n")
            write(root, f"{cpu}/cache/index{index}/type", f"{kind}\n")
            write(root, f"{cpu}/cache/index{index}/size", f"{size}\n")
    return root


def rk3588(root: Path) -> Path:
    """A board with an RK3588 and 8 GB."""
    parts = [("2", "d05")] * 4 + [("4", "d0b")] * 4
    blocks = [ARM_CPU.format(n=n, variant=variant, part=part) for n, (variant, part) in enumerate(parts)]
    write(root, "proc/cpuinfo", "\n".join(blocks) + "\nSerial\t\t: 0123456789abcdef\n")
    write(root, "proc/meminfo", "MemTotal:        8123456 kB\nMemAvailable:    7000000 kB\n")
    write(root, "proc/device-tree/model", "Orange Pi 5\0")
    for n in range(8):
        cpu = f"sys/devices/system/cpu/cpu{n}"
        write(root, f"{cpu}/cpufreq/cpuinfo_max_freq", "1800000\n" if n < 4 else "2400000\n")
        write(root, f"{cpu}/topology/core_id", f"{n % 4}\n")
        write(root, f"{cpu}/topology/cluster_id", "0\n" if n < 4 else "1\n")
        write(root, f"{cpu}/topology/physical_package_id", "0\n")
    return root
