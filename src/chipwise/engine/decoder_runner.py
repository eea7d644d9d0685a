"""DecoderRunner: an open decoder graph that runs named arrays, in whatever runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chipwise.engine.decoder_info import DecoderInfo


class DecoderRunner(Protocol):
    """A prefill or decode graph whose outputs are the logits and the new tokens' keys and values."""

    @property
    def info(self) -> DecoderInfo:
        """What it says of itself."""
        ...

    def run(self, feeds: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[Any]]:
        """Run once: one array an input, by name; the outputs by name.

        Raises:
            EngineError: The runtime failed.
        """
        ...

    def close(self) -> None:
        """Give all memory back. Further calls are errors."""
        ...
