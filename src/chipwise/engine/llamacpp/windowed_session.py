"""WindowedSession: the slots of a model with layers that look back a window only."""

from __future__ import annotations

import numpy as np

from chipwise.engine.batch import Batch, StepOutput
from chipwise.engine.llamacpp.session import LlamaCppSession


class WindowedSession(LlamaCppSession):
    """Copies a slot's whole buffer, and saves none.

    The state that llama.cpp saves of such a sequence lacks what lies behind the window at its end: once its end were
    taken back, others would look there.
    """

    def step(self, batch: Batch) -> StepOutput:
        """Run one step; see ``Session.step``. A slot that cannot be loaded with zeros is scrubbed here."""
        output = super().step(batch)
        rows = output.logits.reshape(batch.rows, -1)
        if batch.used is None and not np.isfinite(np.einsum("ij->i", rows)).all():
            logits = output.logits.copy()
            for row in np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist():
                self._overwrite(batch.first_slot + row)
            return StepOutput(logits)
        return output

    def _copy(self, source: int, target: int) -> None:
        opened = self._open()
        # Whole sequences only: between buffers anything else ends the process. It runs with the next step.
        opened.binding.llama_memory_seq_cp(opened.memory, source, target, -1, -1)
        self._held[target] = self._held[source]
