"""ONNX Runtime as an engine: fused CPU graphs and portable prefill and decode graphs."""

from __future__ import annotations

from chipwise.engine.onnxruntime.engine import OnnxRuntimeEngine

__all__ = ["OnnxRuntimeEngine"]
