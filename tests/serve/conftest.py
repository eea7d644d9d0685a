"""What tests of servers on engines in processes of their own share."""

from __future__ import annotations

from tests.engine.isolated.conftest import site

__all__ = ["site"]
