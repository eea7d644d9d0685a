"""RkllmRun: one run of the runtime, and what its callbacks bring."""

from __future__ import annotations

import codecs
import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.rkllm.generation import Generation, RkllmFigures, RkllmToken
from chipwise.engine.rkllm.prompt import RunInput
from chipwise.engine.rkllm.structs import CONTINUE, PAUSE, CallState
from chipwise.errors import EngineError

OnToken = Callable[[RkllmToken], None]
"""Gets every token as it comes, in the thread that runs the model. It may ask for a pause."""


class RkllmRun:
    """One run. The runtime calls ``take``; any thread may set ``pause_wanted`` and ``abort_wanted``.

    Attributes:
        pause_wanted: Pause once the next token was handed on.
        abort_wanted: The runtime was told to abort.
        ended: Set once no further call comes.
        logits: The rows of a run for logits; None until they came.
        thread: The thread that calls; None until the first call.
        raised: What ``on_token`` raised, if it did.
        stopped: Whether the runtime was told to stop at a token, so that it holds on to what it has.
        in_background: Whether it runs in the runtime's own thread.
    """

    def __init__(
        self, on_token: OnToken | None = None, *, wants_logits: bool = False, keeps: RunInput | None = None
    ) -> None:
        """Begin with nothing.

        Args:
            on_token: Gets every token as it comes.
            wants_logits: Whether logits are asked for, in the place of tokens.
            keeps: What a run in the background is fed, which must live as long as the run.
        """
        self._on_token, self._wants_logits, self._keeps = on_token, wants_logits, keeps
        self.in_background = keeps is not None
        self.thread: int | None = None
        self.pause_wanted = self.abort_wanted = False
        self.stopped = False
        self.ended = threading.Event()
        self.logits: npt.NDArray[np.float32] | None = None
        self._tokens: list[int] = []
        self._texts: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._figures: RkllmFigures | None = None
        self._paused = False
        self._failed = False
        self.raised: BaseException | None = None

    def take(self, result: Any, state: int) -> int:
        """One call of the runtime; what it is to do. Nothing is raised: C would not know what to do with it."""
        self.thread = threading.get_ident()
        try:
            answer = self._take(result, state)
        except BaseException as e:  # raised again where the run was begun
            self.raised, answer = e, PAUSE
        self.stopped = self.stopped or answer == PAUSE
        if answer == PAUSE or state in (CallState.FINISH, CallState.ERROR):
            self.ended.set()
        return answer

    def finish(self, status: int, where: str) -> Generation:
        """What it came to.

        Args:
            status: What the runtime returned.
            where: The model's path, for messages.

        Raises:
            EngineError: The runtime failed.
        """
        if self.raised is not None:
            raise self.raised
        if not self.abort_wanted and (self._failed or status != 0):
            said = "its callback was told of an error" if self._failed else f"it returned {status}"
            raise EngineError(
                f"the runtime failed after {len(self._tokens)} tokens: {said}",
                where=where,
                remedy="see the lines it printed, and dmesg for lines of RKNPU",
            )
        outcome: Any = "aborted" if self.abort_wanted else "paused" if self._paused else "finished"
        # What is cut in the middle of a character stays so only if the model said no more.
        rest = "" if outcome == "paused" else self._decoder.decode(b"", final=True)
        return Generation(tuple(self._tokens), "".join(self._texts) + rest, outcome, self._figures)

    def _take(self, result: Any, state: int) -> int:
        if state == CallState.ERROR:
            self._failed = True
        elif state == CallState.FINISH:
            self._figures = RkllmFigures.of(result.contents.perf) if result else None
        elif result and self._wants_logits:
            self._take_logits(result.contents.logits)
        elif result:
            self._take_token(result.contents)
            if self.abort_wanted:
                return PAUSE  # told so before it had begun, the runtime would go on
            if self.pause_wanted:
                self._paused = True
                return PAUSE
        return CONTINUE

    def _take_token(self, result: Any) -> None:
        text = self._decoder.decode(result.text or b"")
        self._tokens.append(int(result.token_id))
        self._texts.append(text)
        if self._on_token is not None:
            self._on_token(RkllmToken(int(result.token_id), text))

    def _take_logits(self, logits: Any) -> None:
        # The first rows are those of the input; a further call brings those of a token it chose itself.
        if self.logits is None and logits.values and logits.num_tokens > 0 and logits.width > 0:
            count = logits.num_tokens * logits.width
            flat = ctypes.cast(logits.values, ctypes.POINTER(ctypes.c_float * count)).contents
            self.logits = np.ctypeslib.as_array(flat).reshape(logits.num_tokens, logits.width).copy()
