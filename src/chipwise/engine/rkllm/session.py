"""RkllmSession: the runtime driven step by step, through its mode that returns logits.

The runtime has no call that feeds tokens and returns logits on top of what it holds: whether a run goes on from
another one's cache is settled by flags whose effect its header does not state, and people found it not to (rknn-llm
issue 446). So each step feeds the whole sequence, forgets it again (keep_history 0) and takes the last row. That is
right whatever the runtime keeps. It is fast only where the runtime finds the part it has computed before by itself
("automatic prompt cache reuse", its change log for 1.2.0); else a step costs a whole prefill.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.batch_limits import BatchLimits
from chipwise.engine.rkllm.model import RkllmModel
from chipwise.errors import EngineError

# Any ids do: every vocabulary has them, and the same model answers to them twice.
_PROBE, _OTHER = (5, 9, 7, 3), (4, 8)
# Of the largest logit. The same numbers in the same order may differ by what other rows are in a kernel.
_TOLERANCE = 1e-2


class RkllmSession:
    """One sequence in one model. It closes the model."""

    def __init__(self, model: RkllmModel, *, max_context: int) -> None:
        """Take an open model and prove that its logits can be used.

        Raises:
            EngineError: They are not what the model generates from, or depend on what ran before.
        """
        self._model: RkllmModel | None = model
        self.n_slots: Final = 1
        self.max_context: Final = max_context
        self.vocab_size: Final = prove(model)
        self.max_step_tokens: Final = max_context
        self._limits = BatchLimits(1, max_context, self.vocab_size, self.max_step_tokens)
        self._held: list[int] = []

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``."""
        if self._model is None:
            raise EngineError("the session is closed")
        self._limits.check(batch)
        past = int(batch.past[0])
        if past > len(self._held):
            raise EngineError(f"the slot holds {len(self._held)} tokens, the batch says {past}", where="batch")
        held = self._held[:past] + [int(token) for token in batch.tokens[0]]
        self._held = []  # what a step that fails leaves behind is not defined
        logits = self._model.logits(held)
        self._held = held
        if logits.shape[1] != self.vocab_size:
            raise EngineError(f"the runtime gave {logits.shape[1]} logits, {self.vocab_size} before", where="rkllm")
        return StepOutput(logits[-1:] if batch.logits == "last" else _last_rows(logits, batch.new_tokens)[None])

    def move_slot(self, source: int, target: int, tokens: int) -> None:
        """Do nothing, for there is one slot.

        Raises:
            EngineError: Another one is named, or it holds fewer tokens.
        """
        if source != 0 or target != 0 or not 0 <= tokens <= len(self._held):
            raise EngineError(f"{tokens} tokens from slot {source} to {target}; there is one slot", where="rkllm")

    def close(self) -> None:
        """Give all memory back."""
        if self._model is not None:
            self._model.close()
        self._model = None


def prove(model: RkllmModel) -> int:
    """Check that the last row of logits is what the model generates from, and the same after another run.

    Returns:
        The width of a row.

    Raises:
        EngineError: It is not: a client would be answered from noise.
    """
    (chosen,) = model.generate(_PROBE, max_new_tokens=1).tokens[:1] or (None,)
    first = model.logits(_PROBE)[-1]
    model.logits(_OTHER)
    again = model.logits(_PROBE)[-1]
    if not np.isfinite(first).all() or not first.any():
        raise _refuse("its logits are zero or not finite")
    # A token that the runtime keeps to itself, such as an end, is none it hands on.
    if chosen is not None and first[chosen] < first.max() - _TOLERANCE * np.abs(first).max():
        raise _refuse(f"it generates token {chosen}, and its logits say {int(first.argmax())}")
    if first.shape != again.shape or np.abs(first - again).max() > _TOLERANCE * np.abs(first).max():
        raise _refuse("its logits for the same tokens change with what ran before")
    return int(first.shape[0])


def _last_rows(logits: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.float32]:
    if len(logits) < count:
        raise EngineError(
            f"the runtime gave logits of {len(logits)} tokens, {count} were asked for",
            where="rkllm",
            remedy="score with another engine: this one computes anew only what it does not remember",
        )
    return logits[-count:]


def _refuse(what: str) -> EngineError:
    return EngineError(
        f"this librkllmrt.so cannot be driven token by token: {what}",
        where="rkllm",
        remedy="use chipwise.engine.rkllm.RkllmModel, which lets the runtime choose the tokens",
    )
