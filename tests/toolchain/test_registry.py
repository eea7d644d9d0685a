from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import pytest

from chipwise.errors import InputError, ToolchainError
from chipwise.toolchain import get_toolchain, toolchains
from chipwise.toolchain.registry import ENTRY_POINT_GROUP, ToolchainRegistry
from tests.toolchain import fake


def _brings(name: str, value: str):
    found = [EntryPoint(name, value, ENTRY_POINT_GROUP)]
    return patch("chipwise.toolchain.registry.entry_points", lambda group: found if group == ENTRY_POINT_GROUP else [])


def test_built_in_toolchains_are_known_and_their_runners_there() -> None:
    assert "rknn" in toolchains.names()
    for name in toolchains.names():
        assert get_toolchain(name).name == name
        assert "def prove(" in get_toolchain(name).runner.read_text()


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no toolchain named 'rknm'; known toolchains: .*rknn"):
        get_toolchain("rknm")


def test_taken_name_is_refused(tmp_path: Path) -> None:
    registry = ToolchainRegistry("none")
    registry.register(fake.spec(tmp_path))
    with pytest.raises(InputError, match="already registered"):
        registry.register(fake.spec(tmp_path))


def test_packages_bring_toolchains() -> None:
    with _brings("theirs", "chipwise.toolchain.rknn:RKNN"):
        assert "theirs" in toolchains.names()
        assert get_toolchain("theirs").name == "rknn"


@pytest.mark.parametrize("value", ["no_such_module:X", "chipwise.toolchain.rknn:_pins", "chipwise.toolchain.rknn:no"])
def test_a_package_that_brings_none_is_named(value: str) -> None:
    with _brings("theirs", value), pytest.raises(ToolchainError, match="theirs") as caught:
        get_toolchain("theirs")
    assert caught.value.where == value
