"""A runtime compiled from a small C source, and models for it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chipwise.engine.rkllm import RkllmModel
from chipwise.engine.rkllm.settings import RkllmSettings

SOURCE = Path(__file__).parent / "fake_rkllmrt.c"
WriteModel = Callable[..., Path]
OpenModel = Callable[..., RkllmModel]


def _compiled(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler, which makes the stand-in for librkllmrt.so")
    made = folder / "librkllmrt.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-pthread", *flags, "-o", str(made), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return made


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A librkllmrt.so of release 1.3.0."""
    return _compiled(tmp_path_factory.mktemp("rkllm"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose parameters are those of release 1.2.3."""
    return _compiled(tmp_path_factory.mktemp("rkllm_old"), "-DOLD_LAYOUT")


@pytest.fixture
def write_model(tmp_path: Path) -> WriteModel:
    """Writes a model file: words the fake understands."""

    def write(**words: object) -> Path:
        path = tmp_path / "m.rkllm"
        path.write_text(" ".join(["RKLLM", *(f"{name}={value}" for name, value in words.items())]) + "\n")
        return path

    return write


@pytest.fixture
def open_model(library: Path, write_model: WriteModel) -> Iterator[OpenModel]:
    """Opens a model with a fault or none."""
    opened: list[RkllmModel] = []

    def make(fault: str = "", **settings: Any) -> RkllmModel:
        path = write_model(fault=fault)
        opened.append(RkllmModel(path, RkllmSettings(**{"context": 256, "library": str(library), **settings})))
        return opened[-1]

    yield make
    for model in opened:
        model.close()


@pytest.fixture
def seen(library: Path) -> Callable[[], dict[str, str]]:
    """What the fake was asked last."""
    asked = ctypes.CDLL(str(library)).fake_seen
    asked.restype = ctypes.c_char_p
    return lambda: dict(word.split("=", 1) for word in asked().decode().split(" "))
