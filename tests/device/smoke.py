"""What a board does, without pytest: import the device side, open a bundle, serve it, ask it.

Run by scripts/test_device in an environment that has chipwise's base packages only.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys

import chipwise

DEVICE = ("serve", "bundle", "engine", "telemetry", "target", "report", "files", "errors")
DEVICE_MODEL = ("tokenizer", "chat_template", "scheme", "config", "queries")
HOST_ONLY = ("torch", "transformers", "onnx", "onnx_ir", "onnxscript", "onnxslim", "gguf", "safetensors", "ml_dtypes")


def check_environment() -> None:
    """None of the packages a board lacks may be importable, or the rest proves nothing."""
    found = [name for name in HOST_ONLY if importlib.util.find_spec(name)]
    if found:
        sys.exit(f"this environment has {', '.join(found)}; it must have the base packages only")
    print(f"Python {sys.version.split()[0]}, base packages only")


def import_device_side() -> None:
    """Every module of the device side can be imported."""
    names = [f"chipwise.model.{name}" for name in DEVICE_MODEL] + ["chipwise.cli.main", "chipwise.cli.inspect"]
    for name in DEVICE:
        package = f"chipwise.{name}"
        if importlib.util.find_spec(package) is None:
            continue
        names.append(package)
        path = getattr(importlib.import_module(package), "__path__", None)
        if path is not None:
            names += [found.name for found in pkgutil.walk_packages(path, f"{package}.")]
    for name in names:
        importlib.import_module(name)
    print(f"{len(names)} modules of chipwise {chipwise.__version__} imported")


def main() -> None:
    """Run all steps; an exception ends it with a traceback."""
    check_environment()
    import_device_side()


if __name__ == "__main__":
    main()
