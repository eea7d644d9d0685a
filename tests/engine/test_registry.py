from __future__ import annotations

from importlib.metadata import EntryPoint
from unittest.mock import patch

import pytest

from chipwise.engine.null import NullEngine
from chipwise.engine.registry import ENTRY_POINT_GROUP, EngineRegistry, engines, get_engine
from chipwise.errors import DependencyError, EngineError, InputError


def _brings(*points: tuple[str, str]):
    found = [EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in points]
    return patch("chipwise.engine.registry.entry_points", lambda group: found if group == ENTRY_POINT_GROUP else [])


def test_built_in_engines_are_known() -> None:
    assert {"null", "onnxruntime"} <= set(engines.names())
    assert isinstance(get_engine("null"), NullEngine)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no engine named 'nul'; known engines: llama.cpp, null, onnxruntime"):
        get_engine("nul")


def test_engines_for_boards_are_known_everywhere() -> None:
    for name in ("rknn", "rkllm"):
        assert name in engines.names()
        assert get_engine(name).name == name


def test_creator_runs_only_when_asked() -> None:
    registry = EngineRegistry("none")
    made: list[int] = []

    def create() -> NullEngine:
        made.append(1)
        return NullEngine()

    registry.register("mine", create)
    assert registry.names() == ["mine"]
    assert not made
    registry.create("mine")
    assert made == [1]


def test_taken_name_is_refused() -> None:
    registry = EngineRegistry("none")
    registry.register("mine", NullEngine)
    with pytest.raises(InputError, match="already registered"):
        registry.register("mine", NullEngine)


def test_missing_runtime_is_named() -> None:
    def create() -> NullEngine:
        import no_such_runtime  # noqa: F401

        return NullEngine()

    registry = EngineRegistry("none")
    registry.register("mine", create)
    with pytest.raises(DependencyError, match="'mine' needs the package no_such_runtime"):
        registry.create("mine")


def test_packages_bring_engines() -> None:
    with _brings(("theirs", "chipwise.engine.null:NullEngine")):
        assert "theirs" in engines.names()
        assert isinstance(get_engine("theirs"), NullEngine)


def test_package_does_not_replace_a_built_in() -> None:
    with _brings(("null", "json:loads")):
        assert isinstance(get_engine("null"), NullEngine)


@pytest.mark.parametrize("value", ["no_such_package:Engine", "json:no_such_name"])
def test_broken_package_is_named(value: str) -> None:
    with _brings(("theirs", value)), pytest.raises(EngineError, match="'theirs' fails to load") as caught:
        get_engine("theirs")
    assert caught.value.where == value


def test_entry_point_that_is_no_creator() -> None:
    with _brings(("theirs", "sys:maxsize")), pytest.raises(EngineError, match="not callable"):
        get_engine("theirs")
