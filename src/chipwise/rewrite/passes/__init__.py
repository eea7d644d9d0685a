"""The passes. Each keeps what the graph computes and says what it changed."""

from __future__ import annotations
