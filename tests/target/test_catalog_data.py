"""The figures of the catalogue, held against the documents they come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import chipwise.target
from chipwise.target import Provenance, Quantity, Target, catalog, load_target, names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(chipwise.target.__file__).parent / "catalog"
EXPECTED = {
    *("rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rv1126b", "rk3399pro", "orin-nano", "agx-orin", "orin-nx"),
    *(
        "edge-tpu",
        "bm1684",
        "bm1684x",
        "bm1688",
        "horizon-j5",
        "cambricon-mlu220",
        "ethos-u55",
        "ethos-u65",
        "ethos-u85",
    ),
    *("mt8781", "cortex-a76", "cortex-a78"),
}


def _walk(noun: Any) -> Iterator[Any]:
    yield noun
    if isinstance(noun, dict):
        for value in noun.values():
            yield from _walk(value)
    elif isinstance(noun, tuple):
        for value in noun:
            yield from _walk(value)
    elif is_dataclass(noun):
        for field in fields(noun):
            yield from _walk(getattr(noun, field.name))


def _value(quantity: Quantity | None) -> float:
    assert quantity is not None
    return quantity.value


def _region(target: Target, name: str) -> Any:
    return next(region for region in target.memory if region.name == name)


def test_every_chip_is_there() -> None:
    assert set(names()) >= EXPECTED


@pytest.mark.parametrize("target", catalog().values(), ids=lambda target: target.name)
def test_every_number_lies_in_a_quantity_with_a_source(target: Target) -> None:
    for noun in _walk(target.chip):
        if isinstance(noun, Quantity):
            assert isinstance(noun.provenance, Provenance)
        elif is_dataclass(noun):
            bare = [f.name for f in fields(noun) if isinstance(getattr(noun, f.name), (int, float))]
            assert [name for name in bare if name != "value"] == []


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.toml")), ids=lambda path: path.stem)
def test_every_source_is_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for key in tomllib.loads(text)["sources"]:
        assert f'source = "{key}"' in text, key


@pytest.mark.parametrize("target", catalog().values(), ids=lambda target: target.name)
def test_every_mode_loads(target: Target) -> None:
    for mode in target.chip.modes:
        assert load_target(f"{target.chip.name}@{mode.name}").mode == mode


def test_rk3588() -> None:
    target = load_target("rk3588")
    npu = target.accelerator
    assert npu is not None
    assert {d: q.value for d, q in npu.macs_per_cycle.items()} == {
        "int4": 2048, "int8": 1024, "int16": 512, "fp16": 512, "bf16": 512, "tf32": 256,
    }  # fmt: skip
    assert _value(npu.count) == 3
    assert _value(npu.clock_hz) == 1e9
    assert npu.ops_per_s("int8") == 6.144e12
    assert npu.ops_per_s("fp16") == 3.072e12
    assert round(_value(target.read_bps) / 1e9, 1) == 43.8
    assert round(_value(load_target("rk3588@ddr-4224").read_bps) / 1e9, 1) == 33.8
    assert _value(_region(target, "npu-buffer").size_bytes) == 384 * 1024
    assert _value(_region(target, "npu-buffer").count) == 3
    assert _value(_region(target, "sram").size_bytes) == 956 * 1024
    assert _value(_region(target, "dram").max_bytes) == 32 * 2**30
    assert target.chip.devices["npu_devfreq"].value == "fdab0000.npu"


def test_rk3588_limits() -> None:
    limits = load_target("rk3588").constraints
    assert _value(limits.opset_max) == 19
    assert _value(limits.matmul_k_max) == 8192
    assert _value(limits.context_max_tokens) == 16384
    assert _value(limits.context_multiple_tokens) == 32
    assert _value(limits.out_columns_max) == 8192
    assert limits.activation_granularity is not None
    assert limits.activation_granularity.value == "tensor"
    assert load_target("rk3588").scheme("w4a16") is None
    support = load_target("rk3588").scheme("w8a8", "rkllm")
    assert support is not None
    assert support.group_sizes == (128, 256, 512)


@pytest.mark.parametrize(
    ("chip", "op", "place"),
    [
        ("rk3588", "Erf", "cpu"),
        ("rk3588", "Softmax", "npu"),
        ("rk3588", "CumSum", "npu"),
        ("rk3588", "TopK", "cpu"),
        ("rk3588", "Det", "unsupported"),
        ("rk3588", "Gather", "cpu"),
        ("rk3576", "Greater", "npu"),
        ("rk3588", "Greater", "cpu"),
        ("rk3566", "Softmax", "cpu"),
        ("ethos-u55", "Gather", "cpu"),
        ("ethos-u85", "Gather", "npu"),
        ("ethos-u85", "CumSum", "cpu"),
        ("cortex-a76", "CumSum", "cpu"),
    ],
)
def test_operators_have_their_place(chip: str, op: str, place: str) -> None:
    placed = load_target(chip).constraints.place(op)
    assert placed is not None
    assert placed.place == place


def test_rk3576() -> None:
    target = load_target("rk3576")
    assert target.ops_per_s("int8") == 6e12
    assert _value(_region(target, "nbuf").size_bytes) == 2**20
    assert round(_value(target.read_bps) / 1e9, 1) == 21.9
    assert round(_value(load_target("rk3576@ddr-4224").read_bps) / 1e9, 1) == 16.9
    support = target.scheme("w4a16")
    assert support is not None
    assert support.weights == ("channel", "group")
    assert support.group_sizes == (32, 64, 128, 256)


@pytest.mark.parametrize(
    ("chip", "schemes"),
    [
        ("rk3588", {"w8a8", "w16a16i", "fp16"}),
        ("rk3566", {"w8a8", "w16a16i", "fp16"}),
        ("rk3568", {"w8a8", "w16a16i", "fp16"}),
        ("rk3576", {"w8a8", "w16a16i", "w4a16", "fp16"}),
        ("rv1126b", {"w8a8", "w16a16i", "w4a16", "fp16"}),
        ("rk3562", {"w8a8", "w16a16i", "w8a16", "fp16"}),
        ("bm1684", {"w8a8", "fp32"}),
    ],
)
def test_chips_take_the_schemes_their_toolkit_takes(chip: str, schemes: set[str]) -> None:
    assert {s.name for s in load_target(chip).constraints.schemes} == schemes


def test_orin_nano_and_its_super_mode() -> None:
    standard, fast = load_target("orin-nano"), load_target("orin-nano@super")
    assert (standard.ops_per_s("int8"), _value(standard.read_bps)) == (20e12, 68e9)
    assert _value(fast.read_bps) == 102e9
    assert fast.accelerator is not None
    assert fast.accelerator.sparse_peak_ops["int8"].value == 67e12
    assert not fast.accelerator.peak_ops["int8"].provenance.verified


def test_dla_limits_hold_for_the_dla_alone() -> None:
    for name in ("agx-orin", "orin-nx"):
        chip = load_target(name).chip
        assert _value(chip.unit_constraints["dla"].dim_max) == 8192
        assert _value(chip.unit_constraints["dla"].batch_max) == 4096
        assert _value(chip.unit_constraints["dla"].loadables_max) == 16
        assert chip.constraints.dim_max is None
    assert load_target("agx-orin").chip.total_sparse_ops["int8"].value == 275e12


def test_others() -> None:
    rk3399pro = load_target("rk3399pro").accelerator
    assert rk3399pro is not None
    assert rk3399pro.macs_per_cycle["int8"].value == 1920
    horizon = load_target("horizon-j5")
    assert (_value(horizon.constraints.dim_min), _value(horizon.constraints.dim_max)) == (1, 65536)
    assert (_value(horizon.constraints.opset_min), _value(horizon.constraints.opset_max)) == (10, 11)
    assert horizon.ops_per_s("int8") == 128e12
    assert load_target("ethos-u65").ops_per_s("int8") == 2 * 512 * 1e9
    assert load_target("ethos-u85@2048").ops_per_s("int8") == 2 * 2048 * 1e9
    assert _value(load_target("ethos-u55").constraints.abs_weight_sum_max) == 8323072
    assert _value(_region(load_target("bm1684x"), "l2").size_bytes) == 2 * 2**20 - 12 * 1024
    assert load_target("mt8781").engine == "onnxruntime"


@pytest.mark.parametrize("chip", ["bm1684x", "rk3566", "rv1126b", "cambricon-mlu220"])
def test_what_no_document_confirms_is_assumed(chip: str) -> None:
    unit = load_target(chip).accelerator
    assert unit is not None
    assert all(ops.provenance.kind == "assumed" for ops in unit.peak_ops.values())


def test_the_contradicted_claims_lie_with_their_chips() -> None:
    told = {(t.name, c.claim): c for t in catalog().values() for c in t.chip.claims}
    false = {key for key, claim in told.items() if claim.verdict != "true"}
    assert len(told) == 9
    assert ("rk3588", "RK3588 has 64 GB/s of memory bandwidth") in false
    assert ("rk3576", "RK3576 has 256 KB of NPU SRAM") in false
    assert told["rk3588", "FP16 has a 10-bit mantissa"].verdict == "true"
    assert "fdab0000.npu" in told["rk3588", "RK3588's NPU is fde40000.npu"].truth
