from __future__ import annotations

from pathlib import Path

import pytest

import chipwise.target
from chipwise.target import load_target
from chipwise.target.host.detect import detect
from tests.target.host import trees

COMMON = Path(chipwise.target.__file__).parent / "catalog" / "common"


def test_a_recorded_x86_machine(tmp_path: Path) -> None:
    target = detect(
        common=COMMON, root=trees.x86(tmp_path), usable=frozenset(range(4)), cache=tmp_path / "c", measure="never"
    )
    assert target.name == "host"
    assert target.engine == "onnxruntime"
    assert target.chip.vendor == "Intel"
    assert target.memory_bytes is not None
    assert target.memory_bytes.text() == "8 GiB"
    assert target.accelerator is not None
    assert "avx512_vnni" in target.accelerator.features
    assert target.accelerator.note == "4 logical cores may be used, 2 physical"
    assert [(m.name, m.role) for m in target.memory] == [
        ("dram", "main"), ("l1d", "cache"), ("l2", "cache"), ("l3", "cache"),
    ]  # fmt: skip


def test_what_was_not_measured_is_unknown(tmp_path: Path) -> None:
    target = detect(common=COMMON, root=trees.x86(tmp_path), cache=tmp_path / "c", measure="never")
    assert target.read_bps is None
    assert target.ops_per_s("int8") is None
    assert target.constraints.opset_max is not None  # of the documented version


def test_a_recorded_board(tmp_path: Path) -> None:
    target = detect(
        common=COMMON, root=trees.rk3588(tmp_path), usable=frozenset(range(8)), cache=tmp_path / "c", measure="never"
    )
    assert target.accelerator is not None
    assert target.accelerator.note.startswith("4 x cortex-a55, 4 x cortex-a76, 8 logical cores may be used")
    assert target.accelerator.clock_hz is not None
    assert target.accelerator.clock_hz.text() == "2.4 GHz"
    assert target.chip.notes == ("cortex-a55 + cortex-a76", "Orange Pi 5")


def test_a_quota_is_told(tmp_path: Path) -> None:
    trees.write(trees.x86(tmp_path), "sys/fs/cgroup/cpu.max", "150000 100000")
    target = detect(common=COMMON, root=tmp_path, usable=frozenset(range(4)), cache=tmp_path / "c", measure="never")
    assert target.accelerator is not None
    assert target.accelerator.count is not None
    assert target.accelerator.count.value == 2
    assert "limits them to 1.5 CPUs" in target.accelerator.note


def test_this_machine_is_measured_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPWISE_CACHE", str(tmp_path))
    first, second = load_target("host"), load_target("host")
    assert first.read_bps is not None
    assert first.read_bps == second.read_bps
    for dtype in ("int8", "fp32"):
        assert first.ops_per_s(dtype) == second.ops_per_s(dtype)  # type: ignore[arg-type]
        assert (first.ops_per_s(dtype) or 0) > 1e8  # type: ignore[arg-type]
    place = first.constraints.place("GroupQueryAttention")
    assert place is not None
    assert place.place == "cpu"
    assert {s.name for s in first.constraints.schemes} == {"fp32", "w8a8", "w8a16", "w4a16"}
