"""Memory of large blocks goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from chipwise.serve.models.allocator import give_back_large_blocks, give_back_what_is_free

# Large blocks are freed below a small one that stays, as when requests of all sizes come and go. The first one has the
# library raise its limit.
_PROGRAM = """
import sys
from pathlib import Path
from chipwise.serve.models.allocator import give_back_large_blocks
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


# Blocks that are too small for mappings of their own lie below one that stays, as when a model was closed.
_CLOSED = """
from pathlib import Path
from chipwise.serve.models.allocator import give_back_what_is_free
def resident_kb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
small = [bytearray(b"x" * (100 << 10)) for _ in range(400)]
kept = bytearray(b"y" * (100 << 10))
del small
before_kb = resident_kb()
assert give_back_what_is_free()
print(before_kb - resident_kb())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the GNU C library's")
def test_what_a_model_freed_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _CLOSED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 30_000


def test_other_systems_do_so_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chipwise.serve.models.allocator.sys.platform", "darwin")
    assert not give_back_what_is_free()
