"""What others may import, and that it is what it says."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
from types import ModuleType

import pytest

import chipwise

PACKAGES = [found.name for found in pkgutil.walk_packages(chipwise.__path__, "chipwise.") if found.ispkg]


def test_version_is_the_packages() -> None:
    assert importlib.metadata.version("chipwise") == chipwise.__version__


@pytest.mark.parametrize("name", PACKAGES)
def test_declared_names_exist_once_and_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    declared: list[str] = getattr(module, "__all__", [])
    assert len(declared) == len(set(declared))
    for public in declared:
        value = getattr(module, public)
        assert not isinstance(value, ModuleType), f"{name}.{public} is a module"
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{name}.{public} has no docstring"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_says_what_it_is_for(name: str) -> None:
    assert importlib.import_module(name).__doc__
