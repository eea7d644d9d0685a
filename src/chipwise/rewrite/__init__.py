"""Rewrites of ONNX graphs, one pass a file, each proven by running the graph before and after."""

from __future__ import annotations
