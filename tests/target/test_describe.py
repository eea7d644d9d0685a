from __future__ import annotations

from chipwise.target import Chip, ComputeUnit, Target, load_target
from chipwise.target.describe import rows, summary


def test_summary_tells_compute_bandwidth_and_schemes() -> None:
    line = summary(load_target("rk3588"))
    assert line.compute == "3 x npu, 6.144 TOPS int8"
    assert line.bandwidth == "43.78 GB/s"
    assert line.schemes == "w8a8 w16a16i fp16"
    assert line.engine == "rknn rkllm"


def test_summary_marks_what_is_not_verified_and_what_is_unknown() -> None:
    assert summary(load_target("bm1684x")).compute.endswith("32 TOPS int8?")
    assert summary(load_target("ethos-u55")).compute.endswith("int8?")
    assert summary(load_target("orin-nx")).compute == "gpu + dla, 100 TOPS int8 sparse"
    empty = summary(Target(Chip("x", "nobody", ("e",))))
    assert (empty.compute, empty.bandwidth, empty.schemes) == ("unknown", "unknown", "unknown")


def test_rows_tell_every_fact_with_its_source() -> None:
    found = {(row.section, row.name): row for row in rows(load_target("rk3576"))}
    assert found["memory: nbuf", "size"].value == "1 MiB"
    assert found["memory: dram", "read"].note == "32 bit x 5472 MT/s"
    assert found["limits", "opset max"].source.startswith("measured: rknn-toolkit2 2.5.0")
    assert found["devices", "npu devfreq"].value == "27700000.npu"
    assert found["target", "other modes"].value == "ddr-4224"
    assert found["alignment", "packed weights, int4"].value == "multiple of 32 B"
    assert found["compute: npu", "op/s int8"].value == "6 TOPS"


def test_rows_say_what_is_unknown() -> None:
    found = {(row.section, row.name): row.value for row in rows(load_target("rk3562"))}
    assert found["compute: npu", "unknown"] == "clock, op/s"
    assert found["memory: dram", "unknown"] == "size, read"


def test_rows_tell_the_limits_of_single_units_and_the_rest_of_operators() -> None:
    found = {(row.section, row.name): row.value for row in rows(load_target("agx-orin"))}
    assert found["limits of dla", "dim max"] == "8,192"
    assert ("operators", "all others") in {(r.section, r.value) for r in rows(load_target("cortex-a76"))}


def test_features_are_told() -> None:
    chip = Chip("x", "nobody", ("e",), units=(ComputeUnit("cpu", "cpu", features=("avx2", "fma")),))
    assert ("features", "avx2 fma") in {(row.name, row.value) for row in rows(Target(chip))}
