"""RuntimeLog: what llama.cpp says goes wrong, since its functions only return that something does."""

from __future__ import annotations

import ctypes
import logging
from collections import deque
from functools import cache

from chipwise.engine.llamacpp.binding import Binding

# enum ggml_log_level
_INFO, _WARN, _ERROR, _CONTINUES = 1, 2, 3, 5
_KEPT_LINES = 20
_MOST_CHARACTERS = 300

_logger = logging.getLogger(__name__)


class RuntimeLog:
    """Takes llama.cpp's lines off stderr, and keeps the last warnings and errors.

    It lives as long as the process: the library calls it whenever it likes.
    """

    def __init__(self, binding: Binding) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._level = _INFO
        self._callback = binding.llama_log_callback(self._hear)
        binding.llama_log_set(self._callback, ctypes.c_void_p(0))

    def clear(self) -> None:
        """Forget what was said so far."""
        self._lines.clear()

    def reason(self) -> str:
        """The first error or warning since ``clear``, in brackets to be put behind a message; empty if there is none.

        What is said first names the cause; what follows is that the callers failed too.
        """
        return f" ({self._lines[0][:_MOST_CHARACTERS]})" if self._lines else ""

    def _hear(self, level: int, text: bytes | None, _: object) -> None:
        line = (text or b"").decode("utf-8", "replace").strip()
        self._level = self._level if level == _CONTINUES else level
        if not line:
            return
        _logger.debug("%s", line)
        if self._level in (_WARN, _ERROR):
            # "some_function: what is wrong": the function is nothing to a user.
            self._lines.append(line.partition(": ")[2] or line)


@cache
def runtime_log(binding: Binding) -> RuntimeLog:
    """The one log of a binding."""
    return RuntimeLog(binding)
