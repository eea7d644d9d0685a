from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from chipwise.engine.rkllm.library import RkllmLibrary
from chipwise.errors import DependencyError, EngineError


def test_defaults_are_the_runtimes_own(library: Path) -> None:
    param = RkllmLibrary(str(library)).default_param()
    assert (param.top_k, param.n_keep, param.extend_param.n_batch) == (40, -1, 1)
    assert (param.top_p, param.temperature) == pytest.approx((0.9, 0.8))


def test_an_older_release_is_told_by_its_layout(old_library: Path) -> None:
    library = RkllmLibrary(str(old_library))
    with pytest.raises(EngineError, match=r"not librkllmrt.so of release 1\.3: its parameters are laid out in another"):
        library.default_param()
    assert library.default_param(trust_layout=True).top_k == 40


def test_no_library(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match=r"librkllmrt\.so cannot be loaded .* put librkllmrt.so of Rockchip's"):
        RkllmLibrary(str(tmp_path / "librkllmrt.so"))
    (tmp_path / "librkllmrt.so").write_bytes(b"\x7fELF and nothing")
    with pytest.raises(DependencyError, match="cannot be loaded"):
        RkllmLibrary(str(tmp_path / "librkllmrt.so"))


def test_another_library() -> None:
    name = ctypes.util.find_library("m")
    if name is None:
        pytest.skip("no library of C's mathematics")
    with pytest.raises(DependencyError, match=r"no librkllmrt\.so of release 1\.2\.1 or newer"):
        RkllmLibrary(name)
