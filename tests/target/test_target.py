from __future__ import annotations

import json
from dataclasses import replace

import pytest

from chipwise.target import Board, Chip, ComputeUnit, MemoryRegion, Mode, Provenance, Quantity, Target, load_target

SOURCE = Provenance("vendor", "sheet", "2026-11")


def test_a_mode_changes_only_what_it_sets() -> None:
    fast, slow = load_target("rk3588"), load_target("rk3588@ddr-4224")
    assert fast.read_bps is not None
    assert slow.read_bps is not None
    assert (fast.read_bps.value, slow.read_bps.value) == (43.776e9, 33.792e9)
    assert fast.main_memory is not None
    assert slow.main_memory == replace(fast.main_memory, read_bps=slow.read_bps)
    assert fast.units == slow.units
    assert (fast.name, slow.name) == ("rk3588", "rk3588@ddr-4224")


def test_the_board_decides_memory_and_name() -> None:
    chip = load_target("rk3588").chip
    board = Board("box", memory_bytes=Quantity(4 * 2**30, "B", SOURCE), read_bps=Quantity(20e9, "B/s", SOURCE))
    target = Target(chip, board, chip.modes[0])
    assert target.name == "box"
    assert target.memory_bytes == board.memory_bytes
    assert target.read_bps == board.read_bps


def test_without_a_board_the_chip_tells_the_most_memory() -> None:
    memory = load_target("rk3576").memory_bytes
    assert memory is not None
    assert memory.value == 16 * 2**30


def test_a_bare_chip_knows_nothing() -> None:
    target = Target(Chip("x", "nobody", ("onnxruntime",)))
    assert target.accelerator is None
    assert target.main_memory is None
    assert target.memory_bytes is None
    assert target.read_bps is None
    assert target.ops_per_s("int8") is None
    assert target.scheme("w8a8") is None


def test_the_usual_engine_answers_first_for_a_scheme() -> None:
    target = load_target("rk3576")
    usual, other = target.scheme("w4a16"), target.scheme("w4a16", "rkllm")
    assert usual is not None
    assert usual.engine == "rknn"
    assert other is not None
    assert other.group_sizes == (32, 64, 128)
    assert target.scheme("w4a16", "onnxruntime") is None


def test_claims_are_found_by_topic() -> None:
    assert [c.claim for c in load_target("rk3588").claims_about("scheme")] == ["w4a16 on RK3588 by a flag"]


@pytest.mark.parametrize("name", ["rk3588", "orin-nano@super", "cortex-a76"])
def test_to_dict_is_json_and_shows_what_the_mode_makes(name: str) -> None:
    target = load_target(name)
    fields = json.loads(json.dumps(target.to_dict()))
    assert fields["name"] == name
    assert fields["engine"] == target.engine
    if target.read_bps is not None:
        assert fields["read_bps"]["value"] == target.read_bps.value
        assert fields["memory"][0]["read_bps"]["value"] == target.read_bps.value


def test_a_chip_refuses_what_does_not_fit_together() -> None:
    npu = ComputeUnit("npu", "npu")
    with pytest.raises(ValueError, match="engines: is empty"):
        Chip("x", "nobody", ())
    with pytest.raises(ValueError, match="used twice: npu"):
        Chip("x", "nobody", ("e",), units=(npu, npu))
    with pytest.raises(ValueError, match="fast: dram is no part of x"):
        Chip("x", "nobody", ("e",), units=(npu,), modes=(Mode("fast", memory=(MemoryRegion("dram", "main"),)),))
