"""Binding: llama.cpp's C interface as the package llama-cpp-python has it in ctypes. Nothing of its Python classes."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chipwise.errors import DependencyError

Binding = Any
"""A module with llama.cpp's functions and structures under their C names."""

ENGINE = "llama.cpp"
"""The engine's name."""

PACKAGE = "llama-cpp-python"
"""What brings it."""

_MODULE = "llama_cpp.llama_cpp"
_REMEDY = "pip install 'chipwise[llamacpp]' (it compiles llama.cpp, which takes minutes and a C++ compiler)"
# Its threads wait for each other hundreds of times a token, in a loop unless told to sleep: with other work on the
# cores a step of 17 ms took 500 and more (docs/engines.md). OpenMP reads it once, as it is loaded.
_WAITING, _ASLEEP = "OMP_WAIT_POLICY", "PASSIVE"
# Those that releases differ in; a package that has them has the rest.
_NEEDED = ("llama_memory_seq_rm", "llama_state_seq_get_data", "llama_n_ctx_seq", "llama_decode", "llama_log_set")


def load_binding() -> Binding:
    """Import the package, with its threads told to sleep while they wait, unless the environment says otherwise.

    Raises:
        DependencyError: It is not installed, its library cannot be loaded, or it is of an older release.
    """
    os.environ.setdefault(_WAITING, _ASLEEP)
    try:
        module = importlib.import_module(_MODULE)
    except ModuleNotFoundError as e:
        raise DependencyError(
            f"the engine {ENGINE!r} needs the package llama-cpp-python, which is not installed", remedy=_REMEDY
        ) from e
    except (ImportError, OSError, RuntimeError) as e:  # the package raises RuntimeError for what the linker says
        raise DependencyError(
            f"the library of llama-cpp-python cannot be loaded ({e})", where=ENGINE, remedy=_REMEDY
        ) from e
    missing = [name for name in _NEEDED if not hasattr(module, name)]
    if missing:
        raise DependencyError(
            f"this release of llama-cpp-python has no {missing[0]}", where=ENGINE, remedy=f"upgrade: {_REMEDY}"
        )
    return module


def runtime() -> str:
    """The package with its version; without it where it was installed without one."""
    try:
        return f"{PACKAGE} {version(PACKAGE)}"
    except PackageNotFoundError:
        return PACKAGE
