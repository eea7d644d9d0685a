"""The software a report's numbers hold for."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("chipwise", "numpy", "onnxruntime", "tokenizers", "onnx", "onnx-ir", "onnxscript", "onnxslim")


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """The versions of Python, the system and the packages that are installed, by name."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
