"""Encoders written as ONNX, straight from their weights, without torch."""

from __future__ import annotations

from chipwise.model.encoder.graph import build_encoder
from chipwise.model.encoder.spec import EncoderSpec

__all__ = ["EncoderSpec", "build_encoder"]
