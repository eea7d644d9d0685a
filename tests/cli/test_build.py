from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from chipwise.cli.main import main
from tests.build import fake_rknn
from tests.build.models import write_images, write_net


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    write_images(folder / "images.npz")
    return write_net(folder / "net.onnx")


def _build(net: Path, out: Path, *more: str, target: str = "rk3588") -> int:
    return main(["build", str(net), "--target", target, "-o", str(out), "--threads", "1", *more])


def test_steps_verdicts_and_what_was_not_run_are_printed(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _build(net, tmp_path / "b", "--recipe", "w8a8", "--samples", str(net.parent / "images.npz")) == 0
    out = capsys.readouterr().out
    for step in ("read", "check", "prove rewrites", "quantize w8a8", "verify w8a8", "bundle"):
        assert any(line.startswith(step) for line in out.splitlines())
    assert "pass output_cosine" in out
    assert "not run: compile for rk3588 (needs the rknn toolkit, which is not installed: `chipwise toolchain" in out
    assert "note: Emulated: rk3588's arithmetic" in out
    assert re.search(r"note: Only \d samples were verified: so few prove little", out)
    assert f"bundle: {tmp_path / 'b'}" in out


def test_an_installed_toolkit_compiles_unless_emulation_is_asked_for(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_rknn.install(tmp_path / "toolkit").items():
        monkeypatch.setenv(name, value)
    options = ("--recipe", "w8a8", "--samples", str(net.parent / "images.npz"))
    assert _build(net, tmp_path / "b", *options, target=fake_rknn.CHIP) == 0
    out = capsys.readouterr().out
    assert re.search(r"compile w8a8 .*20103 bytes for rk3566, \d+ operators on the NPU in 1 segment", out)
    assert "pass compiler_errors 0 (must be 0)" in out
    assert "not run: run on rk3566 (all figures here are those of rknn-toolkit2's simulator on this machine" in out
    assert _build(net, tmp_path / "c", *options, "--emulate", target=fake_rknn.CHIP) == 0
    assert "not run: compile for rk3566 (--emulate was given; all figures" in capsys.readouterr().out


def test_a_toolkit_that_aborts_ends_with_three(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_rknn.install(tmp_path / "toolkit", abort=1).items():
        monkeypatch.setenv(name, value)
    assert _build(net, tmp_path / "b", "--recipe", "fp16", "--dim", "batch=1", target=fake_rknn.CHIP) == 3
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert "ended by SIGABRT" in error


def test_how_long_the_toolkit_may_take(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_rknn.install(tmp_path / "toolkit", sleep_s=60).items():
        monkeypatch.setenv(name, value)
    options = ("--recipe", "fp16", "--dim", "batch=1", "--job-timeout")
    assert _build(net, tmp_path / "b", *options, "1", target=fake_rknn.CHIP) == 3
    assert "was stopped after 1 s" in capsys.readouterr().err
    assert _build(net, tmp_path / "b", *options, "0", target=fake_rknn.CHIP) == 2
    assert "--job-timeout" in capsys.readouterr().err


def test_a_dimension_that_nothing_else_tells(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _build(net, tmp_path / "b", "--recipe", "w8a8", "--dim", "batch=2", "--gate", "channel_cosine=0") == 0
    capsys.readouterr()
    assert _build(net, tmp_path / "c", "--dim", "batch") == 2
    assert "'batch' is no dimension; write it like --dim sequence=128" in capsys.readouterr().err


def test_several_sizes_are_for_a_chips_compiler(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _build(net, tmp_path / "b", "--recipe", "w8a8", "--dim", "batch=1,2") == 2
    error = capsys.readouterr().err.strip()
    assert "several sizes in one file need the chip's own compiler (needs the rknn toolkit, which is not" in error
    assert error.count("\n") == 0
    assert _build(net, tmp_path / "b", "--dim", "batch=1,2", target="host") == 2
    assert "host takes every size as it comes" in capsys.readouterr().err


def test_a_gate_that_fails_ends_with_one(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--recipe", "w8a8", "--samples", str(net.parent / "images.npz"), "--gate", "output_cosine=0.99999999")
    assert _build(net, tmp_path / "b", *options) == 1
    assert "FAIL output_cosine" in capsys.readouterr().out
    assert (tmp_path / "b.failed" / "report.html").is_file()


def test_wrong_samples_are_one_line(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "s.npz", picture=np.zeros((2, 3, 16, 16)))
    assert _build(net, tmp_path / "b", "--samples", str(tmp_path / "s.npz")) == 2
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert "has no array 'image'; name the arrays image" in error
    assert not (tmp_path / "b").exists()


def test_short_options_and_what_replaces_a_bundle(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").write_text("{}")
    assert main(["build", str(net), "-t", "rk3588", "-r", "w8a8", "-o", str(tmp_path / "b")]) == 2
    assert "a bundle is there already; choose another folder, or replace it with --overwrite" in capsys.readouterr().err
