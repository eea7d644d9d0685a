"""Engines in a process of their own: what crashes or hangs there is replaced, and the server lives on."""

from __future__ import annotations

from chipwise.engine.isolated.engine import IsolatedEngine
from chipwise.engine.isolated.graph import IsolatedGraph, open_isolated_graph
from chipwise.engine.isolated.session import IsolatedSession
from chipwise.engine.isolated.settings import Isolation

__all__ = ["IsolatedEngine", "IsolatedGraph", "IsolatedSession", "Isolation", "open_isolated_graph"]
