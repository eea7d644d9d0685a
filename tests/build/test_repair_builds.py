"""Whole builds that are repaired: emulated, through the stand-in, and through the real toolkit where it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.blocks import MASKED, OUTLIERS, Block, draw_samples, write_block
from chipwise.build import BuildOptions, BuildResult, build
from chipwise.build.repair import BUILDS_MAX
from chipwise.bundle import open_bundle
from chipwise.toolchain import Environment
from chipwise.toolchain.environment import FOLDER_VARIABLE
from tests.build import fake_rknn


def _block(folder: Path, block: Block, goal: float, target: str = "rk3588", **changes: Any) -> BuildResult:
    path = write_block(folder / "block.onnx", block)
    np.savez(folder / "samples.npz", x=draw_samples(18)[:, 0])
    gate = {"output_cosine": goal, "channel_cosine": goal}
    fields: dict[str, Any] = {"samples": folder / "samples.npz", "threads": 1, "gate": gate}
    return build(BuildOptions(str(path), target, folder / "b", "w8a8", **(fields | changes)))


def test_an_emulated_chip_is_repaired_by_an_equal_rewrite(tmp_path: Path) -> None:
    result = _block(tmp_path, OUTLIERS, 0.99, emulate=True)
    assert result.passed
    plain, *others = result.report.repairs
    assert plain.change == "plain"
    assert plain.channel_cosine is not None
    assert plain.channel_cosine < 0.7
    assert "evened out" in others[0].change
    assert others[-1].kept
    (step,) = [one for one in result.report.rewrites if one.name == "equalized_channels"]
    assert step.max_abs_difference is not None
    assert step.max_abs_difference < 1e-3
    assert [one.name for one in result.report.steps].count("repair w8a8") == len(others)
    # What lies in the bundle is what passed: its self-test holds.
    assert open_bundle(result.bundle).manifest.name == "block-w8a8-rk3588-emulated"


def test_no_repair_leaves_it_at_one_try(tmp_path: Path) -> None:
    result = _block(tmp_path, OUTLIERS, 0.99, emulate=True, repair=False)
    assert not result.passed
    assert result.report.repairs == ()


def test_a_simulator_that_nothing_helps_is_asked_a_limited_number_of_times(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_rknn.install(tmp_path / "toolkit", noise=1.0).items():
        monkeypatch.setenv(name, value)
    options = BuildOptions(
        str(files / "net.onnx"), fake_rknn.CHIP, tmp_path / "b", "w8a8", samples=files / "images.npz", threads=1
    )
    result = build(options)
    assert not result.passed
    assert 3 <= len(result.report.repairs) <= BUILDS_MAX
    assert {"algorithm mmse", "algorithm kl_divergence"} <= {one.change for one in result.report.repairs}
    assert sum(one.passed for one in result.report.repairs) == 0


@pytest.mark.slow
def test_the_real_toolkit_on_a_masked_block(tmp_path: Path, rknn: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolkit alone reads 0.96 (benchmarks/rockchip_repair)."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    result = _block(tmp_path, MASKED, 0.999)
    assert result.passed
    assert result.report.kept_float16 == ()
    assert {one.dtype for one in result.report.losses if one.op_type == "exSDPAttention"} == {"INT8"}


@pytest.mark.slow
def test_the_real_toolkit_on_outlier_channels(
    tmp_path: Path, rknn: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    result = _block(tmp_path, OUTLIERS, 0.99)
    assert result.passed
    plain, repaired = result.report.repairs
    assert plain.channel_cosine is not None
    assert plain.channel_cosine < 0.65
    assert (repaired.kept, repaired.float16, result.report.kept_float16) == (True, 0, ())
    assert {one.name for one in result.report.losses} >= {"layers.0.mlp.product-rs", "layers.1.mlp.down#2"}


@pytest.mark.slow
def test_the_real_toolkit_keeps_what_loses_most_in_float16(
    tmp_path: Path, rknn: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(rknn.root))
    result = _block(tmp_path, OUTLIERS, 0.996)
    assert any(one.float16 for one in result.report.repairs)
    kept = result.report.kept_float16
    assert kept
    assert all(one.extra_bytes > 0 for one in kept)
