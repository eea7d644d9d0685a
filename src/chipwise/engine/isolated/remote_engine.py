"""RemoteEngine: what is open in one worker, asked until that is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from chipwise.engine.isolated.process import EngineProcess
from chipwise.engine.isolated.wire import Message, raise_error, receive, send
from chipwise.errors import EngineError

# Nearly every step is over by then, and nobody need be looked after.
_QUIET_S = 0.25
_LOOK_S = 0.05


class RemoteEngine:
    """Asks one worker. Once that is lost, every call raises EngineLostError.

    Args:
        process: The worker, just started.
    """

    def __init__(self, process: EngineProcess) -> None:
        self.process: Final = process
        self._look: Callable[[], None] | None = None

    def while_waiting(self, look: Callable[[], None] | None) -> None:
        """Have something called again and again while a call takes long."""
        self._look = look

    def close(self) -> None:
        """End the worker: its memory goes back to the system at once, whatever it does."""
        self.process.kill("it was closed")

    def _call(self, message: Message, limit_s: float, too_long: str) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            EngineLostError: The worker ended, or did not answer in time and was ended.
            ChipwiseError: Whatever the worker raised.
        """
        self._require_alive()
        try:
            send(self.process.control, message)
            answer = self._wait(limit_s, too_long)
        except OSError as e:
            raise self.process.loss() from e
        if answer is None:
            raise self.process.loss()
        raise_error(answer)
        return answer

    def _wait(self, limit_s: float, too_long: str) -> dict[str, Any] | None:
        control, end_s, why = self.process.control, time.monotonic() + limit_s, too_long
        slice_s = _QUIET_S
        while (left_s := end_s - time.monotonic()) > 0:
            control.settimeout(min(slice_s, left_s) if self._look else left_s)
            try:
                return receive(control)
            except TimeoutError:
                slice_s = _LOOK_S
                if self._look:
                    self._look()
            except EngineError as e:
                # Answers would not belong to questions any more.
                why = e.what
                break
        self.process.kill(why)
        raise self.process.loss()

    def _require_alive(self) -> None:
        if not self.process.alive:
            raise self.process.loss()
