"""RkllmModel: a language model in librkllmrt.so."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chipwise.engine.rkllm.generation import Generation
from chipwise.engine.rkllm.library import RkllmLibrary
from chipwise.engine.rkllm.opening import open_handle
from chipwise.engine.rkllm.prompt import RunInput, run_input
from chipwise.engine.rkllm.run import OnToken, RkllmRun
from chipwise.engine.rkllm.sampling import RkllmSampling
from chipwise.engine.rkllm.settings import RkllmSettings
from chipwise.engine.rkllm.structs import Callbacks, InferMode, ResultCallback
from chipwise.errors import EngineError, InputError

# How long the runtime's own thread may take to end after its last callback.
_SETTLE_S = 30.0


class RkllmModel:
    """An open model. It runs one request at a time; ``pause`` and ``abort`` may come from any thread.

    Attributes:
        facts: What the runtime said of itself and the model.
    """

    def __init__(self, path: Path, settings: RkllmSettings | None = None) -> None:
        """Load a model.

        Args:
            path: The .rkllm file.
            settings: How to open it.

        Raises:
            DependencyError: librkllmrt.so is not there.
            ModelFormatError: The file is missing, empty, or a Git LFS pointer.
            EngineError: The library is of another release, or cannot load the model.
        """
        self._path, self._settings = path, settings or RkllmSettings()
        library = RkllmLibrary(self._settings.library)
        self._lib: Any = library.functions
        self._busy = threading.Lock()
        self._run: RkllmRun | None = None
        self._paused_after: int | None = None
        # The runtime keeps these pointers: they live as long as the model.
        self._callback = ResultCallback(self._on_result)
        self._callbacks = Callbacks(result_callback=self._callback)
        self._handle, self.facts = open_handle(library, path, self._settings, self._callbacks)

    @property
    def context(self) -> int:
        """Tokens of a prompt and its answer."""
        return self._settings.context

    @property
    def running(self) -> bool:
        """Whether the runtime says that it is at work."""
        return bool(self._lib.rkllm_is_running(self._open_handle()) == 1)

    @property
    def paused(self) -> bool:
        """Whether a run was paused that ``resume`` can go on with."""
        return self._paused_after is not None

    @property
    def kv_tokens(self) -> int:
        """Tokens the KV cache holds.

        Raises:
            EngineError: The runtime does not say.
        """
        sizes = (ctypes.c_int * 1)()
        self._require(self._lib.rkllm_get_kv_cache_size(self._open_handle(), sizes), "say what its KV cache holds")
        return int(sizes[0])

    def generate(
        self,
        prompt: str | Sequence[int],
        on_token: OnToken | None = None,
        *,
        max_new_tokens: int | None = None,
        sampling: RkllmSampling | None = None,
        keep_history: bool = False,
        save_prompt_cache: Path | None = None,
    ) -> Generation:
        """Answer a prompt, and return once the answer has ended, was paused or aborted.

        Args:
            prompt: Text, which the runtime puts into the model's own chat template as the user's message; or token
                ids, which it takes as they are.
            on_token: Gets every token as it comes.
            max_new_tokens: Tokens of the answer at most; None for what the settings say.
            sampling: How tokens are chosen; None for what the settings say.
            keep_history: Whether the runtime keeps the conversation for the next call.
            save_prompt_cache: File to keep the prompt's KV cache in, for ``load_prompt_cache``.

        Raises:
            InputError: The prompt is empty or does not fit.
            EngineError: The runtime failed, or is at work already.
        """
        settings = self._settings
        limit = settings.answer_tokens if max_new_tokens is None else max_new_tokens
        ready = run_input(
            prompt,
            context=settings.context,
            max_new_tokens=limit,
            sampling=sampling or settings.sampling,
            keep_history=keep_history,
            save_prompt_cache=save_prompt_cache,
        )
        with self._one_at_a_time():
            self._forget_pause()
            return self._go(RkllmRun(on_token), ready)

    def start(self, prompt: str | Sequence[int], on_token: OnToken | None = None) -> RkllmRun:
        """Begin to answer in the runtime's own thread, with the settings' sampling; ``wait`` brings the answer.

        Raises:
            InputError: The prompt is empty or does not fit.
            EngineError: The runtime failed, or is at work already.
        """
        settings = self._settings
        ready = run_input(
            prompt, context=settings.context, max_new_tokens=settings.answer_tokens, sampling=settings.sampling
        )
        if not self._busy.acquire(blocking=False):
            raise self._is_busy()
        try:
            self._forget_pause()
            run = self._run = RkllmRun(on_token, keeps=ready)
            self._require(self._lib.rkllm_run_async(self._open_handle(), *ready.pointers, None), "begin a run")
        except BaseException:
            self._run = None
            self._busy.release()
            raise
        return run

    def wait(self, run: RkllmRun, timeout_s: float | None = None) -> Generation:
        """The answer of a run that ``start`` began.

        Args:
            run: The run.
            timeout_s: How long to wait at most, in seconds; None for as long as it takes.

        Raises:
            EngineError: The runtime failed, it took longer, or the run is not the one that goes on.
        """
        if run is not self._run:
            raise EngineError("this run was waited for already", where=str(self._path))
        if not run.ended.wait(timeout_s):
            raise EngineError(f"no answer within {timeout_s:g} s", where=str(self._path), remedy="abort it")
        self._settle()
        self._run = None
        self._busy.release()
        return self._ended(run, 0)

    def resume(self, on_token: OnToken | None = None, *, max_new_tokens: int | None = None) -> Generation:
        """Go on where ``pause`` stopped: the runtime has kept its cache and is fed the last token.

        Raises:
            EngineError: Nothing was paused, or the runtime has not kept its cache, so that what it says is of no use.
        """
        if self._paused_after is None:
            raise EngineError("nothing was paused", where=str(self._path), remedy="generate first")
        settings = self._settings
        limit = settings.answer_tokens if max_new_tokens is None else max_new_tokens
        ready = run_input(
            [self._paused_after], context=settings.context, max_new_tokens=limit, sampling=settings.sampling
        )
        with self._one_at_a_time():
            held = self.kv_tokens
            self._paused_after = None
            if held == 0:
                self._clear()
                raise self._has_forgotten(held)
            made = self._go(RkllmRun(on_token), ready)
            if self.kv_tokens <= held:
                raise self._has_forgotten(held)
            return made

    def pause(self) -> None:
        """Stop the run that is on its way once its next token was handed on."""
        if (run := self._run) is not None:
            run.pause_wanted = True

    def abort(self) -> None:
        """End the run that is on its way."""
        if (run := self._run) is not None:
            run.abort_wanted = True
            self._require(self._lib.rkllm_abort(self._open_handle()), "abort a run")
            run.ended.set()

    def logits(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """The logits after the tokens of an input, float32 ``[rows, vocab]``, the last row after the last token.

        There is a row for each token that the runtime computed: those it had in its cache may have none.

        Raises:
            InputError: There are no tokens, or they do not fit.
            EngineError: The runtime failed or gave no logits.
        """
        run = RkllmRun(wants_logits=True)
        ready = run_input(
            tokens, context=self.context, max_new_tokens=1, sampling=RkllmSampling(), mode=InferMode.LOGITS
        )
        with self._one_at_a_time():
            self._forget_pause()
            self._go(run, ready)
        if run.logits is None:
            raise EngineError("the runtime gave no logits", where=str(self._path))
        return run.logits

    def load_prompt_cache(self, path: Path) -> None:
        """Take a prompt's KV cache from a file that ``generate`` wrote with this model.

        Raises:
            InputError: There is no such file.
            EngineError: The runtime does not take it.
        """
        if not path.is_file():
            raise InputError("no such file", where=str(path), remedy="generate with save_prompt_cache first")
        with self._one_at_a_time():
            self._require(
                self._lib.rkllm_load_prompt_cache(self._open_handle(), str(path).encode()),
                f"load the prompt cache {path}",
            )

    def release_prompt_cache(self) -> None:
        """Give the memory of a loaded prompt cache back.

        Raises:
            EngineError: The runtime failed.
        """
        with self._one_at_a_time():
            self._require(self._lib.rkllm_release_prompt_cache(self._open_handle()), "release its prompt cache")

    def clear_history(self) -> None:
        """Forget the conversation that ``keep_history`` kept, and a run that was paused.

        Raises:
            EngineError: The runtime failed.
        """
        with self._one_at_a_time():
            self._paused_after = None
            self._clear()

    def close(self) -> None:
        """Give all memory back. A run on its way is aborted first.

        Raises:
            EngineError: It is called from the run's own ``on_token``.
        """
        if not self._handle.value:
            return
        if not self._busy.acquire(blocking=False):
            run = self._run
            if run is not None and run.thread == threading.get_ident():
                raise EngineError("a run cannot close its own model", where=str(self._path), remedy="pause it first")
            self.abort()
            if run is not None and run.in_background:
                self._settle()
                self._run = None
            else:
                self._busy.acquire()
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._lib.rkllm_destroy(handle)
        self._busy.release()

    def _on_result(self, result: Any, _userdata: Any, state: int) -> int:
        run = self._run
        return 0 if run is None else run.take(result, state)

    def _go(self, run: RkllmRun, ready: RunInput) -> Generation:
        self._run = run
        try:
            status = self._lib.rkllm_run(self._open_handle(), *ready.pointers, None)
        finally:
            self._run = None
        return self._ended(run, status)

    def _ended(self, run: RkllmRun, status: int) -> Generation:
        if run.stopped and (run.raised is not None or run.abort_wanted):
            # It stopped as for a pause, and the next run is another one.
            self._clear()
        made = run.finish(status, str(self._path))
        if made.outcome == "paused":
            self._paused_after = made.tokens[-1]
        return made

    def _settle(self) -> None:
        deadline_s = time.monotonic() + _SETTLE_S
        while self.running:
            if time.monotonic() > deadline_s:
                raise EngineError(f"the runtime has not ended a run within {_SETTLE_S:g} s", where=str(self._path))
            time.sleep(0.001)

    def _forget_pause(self) -> None:
        """What was paused would be gone on with by the next run, whatever that is fed."""
        if self._paused_after is not None:
            self._paused_after = None
            self._clear()

    def _clear(self) -> None:
        self._require(self._lib.rkllm_clear_kv_cache(self._open_handle(), 0, None, None), "clear its KV cache")

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise self._is_busy()
        try:
            yield
        finally:
            self._busy.release()

    def _has_forgotten(self, held: int) -> EngineError:
        return EngineError(
            f"the runtime has dropped its cache of {held} tokens over a pause: what follows is no continuation",
            where=str(self._path),
            remedy="generate again from the whole text",
        )

    def _is_busy(self) -> EngineError:
        return EngineError(
            "one instance of the runtime runs one request at a time, and one is on its way",
            where=str(self._path),
            remedy="wait for it, pause it or abort it",
        )

    def _open_handle(self) -> ctypes.c_void_p:
        if not self._handle.value:
            raise EngineError("the model is closed", where=str(self._path))
        return self._handle

    def _require(self, status: int, what: str) -> None:
        if status != 0:
            raise EngineError(f"the runtime could not {what} (it returned {status})", where=str(self._path))
