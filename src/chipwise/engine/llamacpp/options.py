"""The engine's settings as a manifest names them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chipwise.engine.llamacpp.binding import ENGINE
from chipwise.errors import EngineError


@dataclass(frozen=True)
class LlamaOptions:
    """Settings.

    Attributes:
        threads: Threads of a step; 0 for one a core that this process may use.
        kv_token_bytes: Bytes of KV a token in float16, for the memory plan; 0 plans none.
    """

    threads: int = 0
    kv_token_bytes: int = 0

    @property
    def thread_count(self) -> int:
        """Threads of a step."""
        return self.threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def read_options(options: Mapping[str, Any]) -> LlamaOptions:
    """Read them.

    Raises:
        EngineError: An option is unknown, or is no number from 0 on.
    """
    known = tuple(LlamaOptions.__dataclass_fields__)
    if unknown := sorted(set(options) - set(known)):
        raise EngineError(f"the engine has no option {unknown[0]!r}", where=ENGINE, remedy=f"it has {', '.join(known)}")
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise EngineError(f"the option {name} is {value!r}, not a number from 0 on", where=ENGINE)
    return LlamaOptions(**options)
