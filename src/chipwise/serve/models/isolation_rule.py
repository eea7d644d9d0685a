"""Which engines run in a process of their own."""

from __future__ import annotations

from chipwise.bundle import Bundle
from chipwise.engine.isolated import Isolation

# What runs in the server's own process unless asked otherwise. A vendor's runtime, which may crash or hang, does not.
_TRUSTED_ENGINES = ("onnxruntime", "null")


def isolation_of(bundle: Bundle, isolate: bool | None, isolation: Isolation | None) -> Isolation | None:
    """How the process of a bundle's engine is kept; None if it has none of its own.

    Args:
        bundle: The bundle.
        isolate: Whether it has one; None decides by the engine.
        isolation: How such a process is kept; None takes the usual way.
    """
    if isolate is None:
        isolate = bundle.manifest.engine.name not in _TRUSTED_ENGINES
    return (isolation or Isolation()) if isolate else None
