"""RknnDecoderGraph: a static prefill or decode graph on the NPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.decoder_info import DecoderInfo
from chipwise.engine.known_fault import Symptom
from chipwise.engine.rknn.graph import RknnGraphSession


class RknnDecoderGraph:
    """A decoder graph in Rockchip's runtime; a ``DecoderRunner``."""

    def __init__(self, session: RknnGraphSession, info: DecoderInfo) -> None:
        self._session = session
        self.info = info

    def run(self, feeds: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[Any]]:
        """Run once; see ``DecoderRunner.run``."""
        return self._session.run(feeds)

    def explain(self, symptom: Symptom) -> str | None:
        """What is known about such outputs of this model on this board; see ``KnowsFaults``."""
        return self._session.explain(symptom)

    def close(self) -> None:
        """Give all memory back."""
        self._session.close()
