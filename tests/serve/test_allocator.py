"""Memory of large blocks goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from chipwise.serve.allocator import give_back_large_blocks

# Large blocks are freed below a small one that stays, as when requests of all sizes come and go. The first one has the
# library raise its limit.
_PROGRAM = """
import sys
from pathlib import Path
from chipwise.serve.allocator import give_back_large_blocks
if sys.argv[1] == "set":
    assert give_back_large_blocks()
def resident_kb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
bytearray(24 << 20)
before_kb = resident_kb()
large = [bytearray(b"x" * (2 << 20)) for _ in range(8)]
kept = bytearray(b"y" * (100 << 10))
del large
print(resident_kb() - before_kb)
"""


def grown_kb(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of the GNU C library")
def test_freed_large_blocks_are_no_longer_resident() -> None:
    assert grown_kb("set") < 2048
    assert grown_kb("as it is") > 8 * 2048


@pytest.mark.skipif(sys.platform == "linux", reason="elsewhere")
def test_elsewhere_nothing_is_set() -> None:
    assert not give_back_large_blocks()
