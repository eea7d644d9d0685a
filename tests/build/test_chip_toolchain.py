from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.build import BuildOptions
from chipwise.build.chip_toolchain import installed_toolchain, why_emulated
from chipwise.target import load_target
from tests.build import fake_rknn


def _options(*, emulate: bool = False) -> BuildOptions:
    return BuildOptions("net.onnx", "rk3588", Path("b"), emulate=emulate)


def test_what_is_not_installed_says_how_to_get_it() -> None:
    assert installed_toolchain(_options(), load_target("rk3588")) is None
    why = why_emulated(_options(), load_target("rk3588"))
    assert why == "needs the rknn toolkit, which is not installed: `chipwise toolchain install rknn`"


def test_half_an_installation_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in fake_rknn.install(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "rknn.json").write_text('{"made": true, "started": null, "done": [], "proven": false}')
    assert installed_toolchain(_options(), load_target("rk3588")) is None
    assert "which is half installed" in why_emulated(_options(), load_target("rk3588"))


def test_an_installed_one_is_used_unless_emulation_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fake_rknn.install(tmp_path).items():
        monkeypatch.setenv(name, value)
    found = installed_toolchain(_options(), load_target("rk3588"))
    assert found is not None
    assert found.root == tmp_path
    assert installed_toolchain(_options(emulate=True), load_target("rk3588")) is None
    assert why_emulated(_options(emulate=True), load_target("rk3588")) == "--emulate was given"


def test_chips_without_a_toolchain_of_ours() -> None:
    for name in ("host", "ethos-u65"):
        assert installed_toolchain(_options(), load_target(name)) is None
    assert "which is no part of this version" in why_emulated(_options(), load_target("ethos-u65"))
