"""A live job without a process: what a simulator would compute, the ONNX source does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from chipwise.errors import ToolchainError
from chipwise.toolchain import JobResult


class FakeLiveJob:
    """In place of a ``LiveJob``.

    Args:
        source: The graph that it computes.
        outputs: How many of the outputs it returns; None for all.
        fails: What it says when it is asked; None to answer.
        peak_bytes: Memory that its job took.
    """

    def __init__(
        self, source: Path, *, outputs: int | None = None, fails: str | None = None, peak_bytes: int = 10**9
    ) -> None:
        self._session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        self._outputs, self._fails = outputs, fails
        folder = source.parent
        self.result = JobResult({}, {}, folder, folder / "stdout", folder / "stderr", 1.5, peak_bytes)
        self.calls: list[list[np.ndarray]] = []

    def call(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """As ``LiveJob.call``, whose arrays cannot be written to."""
        if self._fails:
            raise ToolchainError(self._fails, where="rknn build_live")
        self.calls.append(list(inputs))
        names = [one.name for one in self._session.get_inputs()]
        found: list[Any] = self._session.run(None, dict(zip(names, inputs, strict=True)))[: self._outputs]
        for one in found:
            one.flags.writeable = False
        return found
