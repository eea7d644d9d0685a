"""LlamaCppEngine: opens GGUF files with llama.cpp on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chipwise.engine.llamacpp.binding import ENGINE, Binding, load_binding
from chipwise.engine.llamacpp.memory_plan import MemoryPlan
from chipwise.engine.llamacpp.opened import open_gguf
from chipwise.engine.llamacpp.options import read_options
from chipwise.engine.llamacpp.saving_session import SavingSession
from chipwise.engine.llamacpp.windowed_session import WindowedSession
from chipwise.engine.session import Session
from chipwise.errors import EngineError
from chipwise.target.host.machine import look

ROLE = "gguf"
"""Role of the file in a bundle."""

# Without flash attention a step holds the scores of its tokens with all of a slot: a chunk of this many keeps them
# small, and larger ones were no faster.
_MAX_STEP_TOKENS = 128


class LlamaCppEngine:
    """llama.cpp, through the package llama-cpp-python; its batches are chipwise's own.

    Options: see ``LlamaOptions``.
    """

    name = ENGINE

    def __init__(self, binding: Binding | None = None) -> None:
        """Load the library.

        Args:
            binding: llama.cpp's C interface; None imports the package.

        Raises:
            DependencyError: The package is not installed, or its library cannot be loaded.
        """
        self._binding = load_binding() if binding is None else binding

    def open(self, files: Mapping[str, Path], *, n_slots: int, max_context: int, options: Mapping[str, Any]) -> Session:
        """Open the role ``gguf``.

        Raises:
            InputError: Its weights and KV do not fit the memory that is free, or there are too many slots.
            ModelFormatError: The file is missing or no GGUF file.
            EngineError: The role is missing, an option is malformed, or llama.cpp cannot load the file.
        """
        if n_slots < 1 or max_context < 1:
            raise EngineError(f"{n_slots} slots of {max_context} tokens hold nothing", where=self.name)
        settings = read_options(options)
        if ROLE not in files:
            raise EngineError(
                f"no GGUF file among the files {sorted(files)}",
                where=self.name,
                remedy=f"a bundle for this engine needs the role {ROLE!r}",
            )
        path = files[ROLE]
        size = path.stat().st_size if path.is_file() else 0
        plan = MemoryPlan.of(size, n_slots, max_context, settings.kv_token_bytes)
        plan.require(look().available_bytes)
        step_tokens = min(_MAX_STEP_TOKENS, max_context)
        opened = open_gguf(
            self._binding, path, plan, threads=settings.thread_count, step_tokens=max(step_tokens, n_slots)
        )
        try:
            kind = WindowedSession if opened.window else SavingSession
            return kind(opened, n_slots=n_slots, max_context=max_context, max_step_tokens=step_tokens)
        except BaseException:
            opened.close()
            raise
