"""Rockchip's NPU runtime as an engine: .rknn graphs and decoders through rknn-toolkit-lite2, on the board."""

from __future__ import annotations

from chipwise.engine.rknn.engine import RknnEngine

__all__ = ["RknnEngine"]
