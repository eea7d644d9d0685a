"""RknnContext: one model in one context of the NPU, and every failure of it in words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from chipwise.engine.captured_output import captured_output
from chipwise.engine.rknn import runtime_log
from chipwise.engine.rknn.lite import Lite
from chipwise.engine.rockchip_board import RockchipBoard
from chipwise.errors import EngineError
from chipwise.model.rknn_file import RknnFile

_log = logging.getLogger(__name__)

_NCHW_RANK = 4
# What is known of a failure that printed nothing.
_SILENT = "it printed nothing; see dmesg for lines of RKNPU"


class RknnContext:
    """A loaded model. One thread at a time.

    Attributes:
        runtime_version: Version of librknnrt.so; None if it does not say.
    """

    def __init__(
        self, path: Path, file: RknnFile, *, core_mask: int, board: RockchipBoard, create: Callable[[], Lite]
    ) -> None:
        """Load a model.

        Raises:
            EngineError: The runtime cannot load it.
        """
        self._path, self._file, self._board = path, file, board
        self.runtime_version: str | None = None
        self._lite: Lite | None = None
        with captured_output() as output:
            failure = self._open(create, core_mask)
        for line in output.lines:
            _log.debug("%s", line)
        self.runtime_version = self.runtime_version or runtime_log.runtime_version(output.text)
        if failure is not None:
            self.close()
            raise self._error(*failure, output.text)

    def run(self, inputs: Sequence[npt.NDArray[Any]], pass_through: Sequence[bool] = ()) -> Sequence[npt.NDArray[Any]]:
        """Run once.

        Args:
            inputs: One array an input, in the model's order; four-dimensional ones as NCHW.
            pass_through: Which of them are in the model's own type already; empty for none.

        Raises:
            EngineError: The runtime failed, or the context is closed.
        """
        if self._lite is None:
            raise EngineError("the session is closed")
        outputs, cause = self._infer(self._lite, inputs, pass_through)
        if outputs is None:
            # What it printed the first time is gone. The same call fails the same way, and this time it is read.
            with captured_output() as output:
                outputs, cause = self._infer(self._lite, inputs, pass_through)
            if outputs is None:
                raise self._error("the runtime failed on a run", cause, output.text)
        if len(outputs) != len(self._file.outputs):
            raise EngineError(
                f"the runtime returned {len(outputs)} outputs, the file names {len(self._file.outputs)}",
                where=str(self._path),
            )
        return outputs

    def close(self) -> None:
        """Give all memory back."""
        if self._lite is not None:
            self._lite.release()
        self._lite = None

    def _open(self, create: Callable[[], Lite], core_mask: int) -> tuple[str, Exception | None] | None:
        """Load; what failed and what was raised, or None."""
        try:
            lite = self._lite = create()
            if lite.load_rknn(str(self._path)) != 0:
                return "rknn-toolkit-lite2 cannot read the file", None
            if lite.init_runtime(core_mask=core_mask) != 0:
                return "the runtime cannot load the model", None
            self.runtime_version = runtime_log.runtime_version(lite.get_sdk_version() or "")
        except Exception as e:  # a foreign package may raise anything; it goes on as ours
            return "the runtime cannot load the model", e
        return None

    def _infer(
        self, lite: Lite, inputs: Sequence[npt.NDArray[Any]], pass_through: Sequence[bool]
    ) -> tuple[Sequence[npt.NDArray[Any]] | None, Exception | None]:
        # The toolkit's Python takes four-dimensional inputs as NHWC unless told, and needs a word for each input.
        four = any(array.ndim == _NCHW_RANK for array in inputs)
        try:
            return lite.inference(
                list(inputs),
                data_format=["nchw"] * len(inputs) if four else None,
                inputs_pass_through=[int(one) for one in pass_through] if any(pass_through) else None,
            ), None
        except Exception as e:  # as above
            return None, e

    def _error(self, what: str, cause: Exception | None, printed: str) -> EngineError:
        text = f"{printed}\n{type(cause).__name__}: {cause}" if cause is not None else printed
        found = runtime_log.reason(
            text, toolkit=self._file.toolkit_version, chips=self._file.targets, board=self._board.chip
        )
        error = EngineError(
            f"{what}: {found.what if found else _SILENT}", where=str(self._path), remedy=found.remedy if found else None
        )
        error.__cause__ = cause
        return error
