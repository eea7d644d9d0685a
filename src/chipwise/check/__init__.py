"""Rules that hold a model against a target before anything is built."""

from __future__ import annotations
