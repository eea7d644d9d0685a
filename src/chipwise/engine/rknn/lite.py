"""Lite: what rknn-toolkit-lite2 offers, and how it is found.

The interface is that of ``rknnlite/api/rknn_lite.py`` in the wheel of rknn-toolkit-lite2 2.5.0, plain Python that
comes with the package: every call prints its errors and returns -1 or None.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy.typing as npt

from chipwise.errors import DependencyError

_MODULE = "rknnlite.api"
_OURS = ("rknnlite", _MODULE)
_REMEDY = "on the board run `pip install rknn-toolkit-lite2` (for aarch64 only, proprietary; see docs/boards.md)"


class Lite(Protocol):
    """An object of ``RKNNLite``: one model in one context of the NPU."""

    def load_rknn(self, path: str) -> int:
        """Read a file; 0, or -1 with a line printed."""
        ...

    def init_runtime(self, *, core_mask: int) -> int:
        """Load librknnrt.so and the model; 0, or -1 with lines printed."""
        ...

    def inference(
        self,
        inputs: Sequence[npt.NDArray[Any]],
        *,
        data_format: Sequence[str] | None,
        inputs_pass_through: Sequence[int] | None,
    ) -> Sequence[npt.NDArray[Any]] | None:
        """Run once; the outputs in the model's order, or None with lines printed."""
        ...

    def get_sdk_version(self) -> str | None:
        """Versions of librknnrt and the driver as a few lines of text, after ``init_runtime``; or None."""
        ...

    def release(self) -> None:
        """Give all memory back."""
        ...


def find_lite() -> Callable[[], Lite]:
    """The class ``RKNNLite``.

    Raises:
        DependencyError: rknn-toolkit-lite2 is not installed, or cannot be imported.
    """
    try:
        return cast("Callable[[], Lite]", importlib.import_module(_MODULE).RKNNLite)
    except ModuleNotFoundError as e:
        if e.name in _OURS:
            raise DependencyError("rknn-toolkit-lite2 is not installed", where="rknn", remedy=_REMEDY) from e
        if e.name is not None and e.name.startswith("rknnlite."):
            raise DependencyError(
                f"rknn-toolkit-lite2 is incomplete or made for another Python than {platform.python_version()} ({e})",
                where="rknn",
                remedy=_REMEDY,
            ) from e
        raise DependencyError(
            f"rknn-toolkit-lite2 needs the package {e.name}", where="rknn", remedy=f"install {e.name}"
        ) from e
    except Exception as e:  # a foreign module may raise anything at import
        raise DependencyError(
            f"rknn-toolkit-lite2 cannot be imported ({type(e).__name__}: {e})", where="rknn", remedy=_REMEDY
        ) from e
