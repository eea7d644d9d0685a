from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chipwise.target.host.bandwidth import buffer_bytes, read_bandwidth
from chipwise.target.host.machine import look
from tests.target.host import trees

MIB = 1 << 20


@pytest.mark.parametrize(
    ("cache", "free", "expected"),
    [
        (2 * MIB, 8 << 30, 128 * MIB),
        (300 * MIB, 8 << 30, 600 * MIB),
        (900 * MIB, 64 << 30, 1 << 30),
        (300 * MIB, 100 * MIB, 25 * MIB),
    ],
)
def test_the_buffer_outgrows_the_cache_but_not_the_memory(tmp_path: Path, cache: int, free: int, expected: int) -> None:
    machine = replace(look(trees.x86(tmp_path)), cache_bytes={"l3": cache}, available_bytes=free)
    assert buffer_bytes(machine) == expected


def test_reads_are_measured() -> None:
    machine = replace(look(), available_bytes=64 * MIB)
    speed = read_bandwidth(machine, "2026-11-29", budget_s=0.01)
    assert 1e8 < speed.value < 1e13
    assert speed.unit == "B/s"
    assert speed.provenance.kind == "measured"
    assert f"16 MiB, {machine.threads} threads" in speed.provenance.source
