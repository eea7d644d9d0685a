"""Rockchip's language-model runtime as an engine: .rkllm files through librkllmrt.so, on the board."""

from __future__ import annotations

from chipwise.engine.rkllm.engine import RkllmEngine
from chipwise.engine.rkllm.generation import Generation, RkllmFigures, RkllmToken
from chipwise.engine.rkllm.model import RkllmModel
from chipwise.engine.rkllm.sampling import RkllmSampling

__all__ = ["Generation", "RkllmEngine", "RkllmFigures", "RkllmModel", "RkllmSampling", "RkllmToken"]
