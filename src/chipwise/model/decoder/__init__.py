"""Decoder language models written as ONNX, straight from their weights, without torch."""

from __future__ import annotations

from chipwise.model.decoder.graph import build_decoder
from chipwise.model.decoder.spec import GraphSpec

__all__ = ["GraphSpec", "build_decoder"]
