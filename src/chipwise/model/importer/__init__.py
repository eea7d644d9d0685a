"""Importers: Hugging Face folders, GGUF and ONNX files read as a Model."""

from __future__ import annotations

from chipwise.model.importer.load import load_model

__all__ = ["load_model"]
