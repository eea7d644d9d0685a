"""Mask: which tokens may look at which, as the numbers a portable graph adds to its scores."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipwise.engine.decoder_info import DecoderInfo
from chipwise.errors import EngineError

_BIAS, _LOCAL_BIAS = "attention_bias", "attention_bias_local"


@dataclass(frozen=True)
class Mask:
    """The mask of a model.

    Attributes:
        value: What is added to a masked score; None for what the graph says.
        window: Tokens a sliding layer looks back, itself included; None for what the graph says, or no window.
    """

    value: float | None = None
    window: int | None = None

    def completed(self, graph: DecoderInfo) -> Mask:
        """The mask with what the graph says of it.

        Raises:
            EngineError: A setting is given nowhere.
        """
        value = graph.metadata.get("chipwise.mask_value") if self.value is None else self.value
        window = graph.metadata.get("chipwise.sliding_window") if self.window is None else self.window
        if value is None or (window is None and _LOCAL_BIAS in graph.inputs):
            raise EngineError(
                f"nothing says the {'mask_value' if value is None else 'sliding_window'} of the graph",
                where=str(graph.path),
                remedy="give it as an option of the engine",
            )
        return Mask(float(value), None if window is None else int(window))

    def add_to(
        self,
        feeds: dict[str, npt.NDArray[np.generic]],
        inputs: Container[str],
        queries: npt.NDArray[np.int64],
        keys: npt.NDArray[np.int64],
    ) -> None:
        """Add the biases ``[b, 1, s, t]`` that a graph has inputs for.

        Args:
            feeds: Where they are put.
            inputs: The graph's inputs.
            queries: Positions of the queries, ``[b, s]``.
            keys: Positions of the keys, ``[b, t]``, -1 for an empty place.
        """
        distance = queries[:, :, None] - keys[:, None, :]
        visible = (distance >= 0) & (keys >= 0)[:, None, :]
        if _BIAS in inputs:
            feeds[_BIAS] = self._bias(visible)
        if _LOCAL_BIAS in inputs and self.window is not None:
            feeds[_LOCAL_BIAS] = self._bias(visible & (distance < self.window))

    def _bias(self, visible: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        return np.where(visible, np.float32(0), np.float32(self.value or 0.0))[:, None]
