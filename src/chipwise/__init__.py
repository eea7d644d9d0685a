"""chipwise: put language-model agents on edge chips, and prove that they still do their job there."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
