"""Engine ``llama.cpp``: GGUF files as they are, driven step by step through llama.cpp's C interface."""

from __future__ import annotations

from chipwise.engine.llamacpp.engine import LlamaCppEngine

__all__ = ["LlamaCppEngine"]
