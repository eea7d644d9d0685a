"""StepLimit: from when on a step counts as a hang, judged by what steps took so far."""

from __future__ import annotations

from chipwise.engine.batch import Batch

# A board that throttles to a tenth of its speed has not hung.
_SLOWER = 10.0
# Hangs are rare and a wrong verdict costs all KV: no step is given less time than this.
_FLOOR_S = 30.0
# Fewer tokens take as long as one: by the token they would look slow.
_LEAST_PROMPT = 16
# Nothing that is worth serving takes longer for a token of a prompt.
_UNMEASURED_TOKEN_S = 0.5


class StepLimit:
    """How long a step may take.

    Ten times the slowest so far: of steps of few tokens as such, of prompts by the token. Every step may take as long
    as feeding all it goes on from would, since some runtimes do that (``RkllmSession``).

    Args:
        fixed_s: The limit of every step; None judges by what steps took.
    """

    def __init__(self, fixed_s: float | None = None) -> None:
        self._fixed_s = fixed_s
        self._single_s = 0.0
        self._token_s: float | None = None

    @property
    def other_s(self) -> float:
        """The limit of what is no step: copies of KV."""
        return _FLOOR_S if self._fixed_s is None else self._fixed_s

    def seconds(self, batch: Batch) -> float:
        """The limit of a step."""
        if self._fixed_s is not None:
            return self._fixed_s
        tokens = batch.rows * (int(batch.past.max()) + batch.new_tokens)
        token_s = _UNMEASURED_TOKEN_S if self._token_s is None else self._token_s
        return max(_FLOOR_S, _SLOWER * self._single_s, _SLOWER * token_s * tokens)

    def learn(self, batch: Batch, duration_s: float) -> None:
        """A step took so long."""
        if batch.new_tokens < _LEAST_PROMPT or batch.used is not None:
            self._single_s = max(self._single_s, duration_s)
        else:
            self._token_s = max(self._token_s or 0.0, duration_s / (batch.rows * batch.new_tokens))
