"""What is said before long work starts."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import chipwise.files as file_module
from chipwise.build import BuildOptions, build
from chipwise.build.steps import SilentListener
from chipwise.errors import InputError, OutputError


class Started(SilentListener):
    """Notes the steps, and does something when one begins."""

    def __init__(self, at: str = "", do: Callable[[], object] = lambda: None) -> None:
        self.names: list[str] = []
        self._at, self._do = at, do

    def started(self, name: str) -> None:
        self.names.append(name)
        if name == self._at:
            self._do()


@pytest.mark.parametrize(
    ("model", "name", "others"),
    [("decoder", "output_cosine", "kl_mean_nats"), ("net.onnx", "kl_mean_nats", "output_cosine")],
)
def test_a_threshold_that_does_not_exist(model: str, name: str, others: str, files: Path, tmp_path: Path) -> None:
    started = Started()
    with pytest.raises(InputError, match=f"no threshold named '{name}'; there are {others}, "):
        build(BuildOptions(str(files / model), "host", tmp_path / "b", gate={name: 1.0}), started)
    assert started.names == ["read"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_place_that_is_taken(overwrite: bool, files: Path, tmp_path: Path) -> None:
    started = Started()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").touch()
    with pytest.raises(OutputError, match="exists and is no bundle"):
        build(BuildOptions(str(files / "net.onnx"), "host", tmp_path / "b", overwrite=overwrite), started)
    assert started.names == []
    assert [path.name for path in tmp_path.rglob("*")] == ["b", "thesis.tex"]


def test_a_build_that_is_interrupted_leaves_no_folder_it_made(files: Path, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    options = BuildOptions(
        str(files / "net.onnx"), "rk3588", tmp_path / "new" / "deep" / "b", "w8a8", samples=files / "images.npz"
    )
    with pytest.raises(KeyboardInterrupt):
        build(options, Started("bundle", interrupt))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["check", "prove rewrites", "quantize w8a8", "verify w8a8", "bundle"])
def test_a_disk_that_is_full_from_a_step_on(
    step: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    options = BuildOptions(str(files / "net.onnx"), "rk3588", tmp_path / "b", "w8a8", samples=files / "images.npz")
    with pytest.raises(OutputError, match=r"no space left to write \(\d+ bytes free.*\); free space") as caught:
        build(options, Started(step, lambda: monkeypatch.setattr(os, "fsync", full)))
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_disk_too_small_for_the_graphs(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "free_bytes", lambda path: 1000)
    for model, options in (("decoder", {"queries": files / "queries.jsonl"}), ("net.onnx", {})):
        with pytest.raises(OutputError, match=r"no space left to write \(1000 bytes free, \d+ bytes needed\)"):
            build(BuildOptions(str(files / model), "host", tmp_path / "b", "w8a8", **options))
        assert list(tmp_path.iterdir()) == []
