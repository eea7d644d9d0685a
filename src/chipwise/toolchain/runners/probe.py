"""Looks into a toolchain's environment: which versions are installed, which modules import."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from typing import Any


def versions(request: dict[str, Any]) -> dict[str, Any]:
    """The version of Python and of each package asked for, None where it is not installed."""
    found: dict[str, str | None] = {}
    for package in request["values"]["packages"]:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return {"values": {"python": platform.python_version(), "packages": found}, "artifacts": []}


def imports(request: dict[str, Any]) -> dict[str, Any]:
    """For each module asked for, why it does not import; None where it does."""
    failed: dict[str, str | None] = {}
    for module in request["values"]["modules"]:
        try:
            importlib.import_module(module)
            failed[module] = None
        except Exception as e:  # a vendor's module may raise anything at import
            failed[module] = f"{type(e).__name__}: {e}"
    return {"values": {"failed": failed}, "artifacts": []}


ACTIONS = {"versions": versions, "imports": imports}
