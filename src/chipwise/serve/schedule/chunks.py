"""ChunkRule: how much of a prompt one step feeds."""

from __future__ import annotations

from dataclasses import dataclass

from chipwise.serve.schedule.step_cost import StepCost

# Below this a step reads all weights for hardly more than a decode does.
_LEAST_TOKENS = 16
# ONNX Runtime's attention takes a step's tokens in blocks of twice a head's channels, and other kernels for a block of
# one token (measured with 64 channels: steps of 129, 257 and 385 tokens). Twice the channels is a multiple of this.
_BLOCK_TOKENS = 32


@dataclass(frozen=True)
class ChunkRule:
    """How prompts are cut, so that whoever comes meanwhile is heard within the time of one step.

    Attributes:
        budget_s: How long a step may take.
        alert_budget_s: The same while urgent requests are about: longer steps are cheaper a token.
        alert_for_s: How long after an urgent request they are.
        unmeasured_tokens: The most tokens of a step while others decode, as long as no prefill has been measured.
        whole_tokens: A sequence's first tokens up to this number cost what one costs: a graph with a fixed length. They
            are never cut.
    """

    budget_s: float = 0.1
    alert_budget_s: float = 0.05
    alert_for_s: float = 600.0
    unmeasured_tokens: int = 128
    whole_tokens: int = 1

    def budget(self, *, alert: bool) -> float:
        """How long a step may take, in seconds, while urgent requests are about or not."""
        return min(self.budget_s, self.alert_budget_s) if alert else self.budget_s

    def size(
        self,
        remaining: int,
        max_step_tokens: int,
        cost: StepCost,
        *,
        starts: bool,
        alone: bool,
        alert: bool,
        emergency: bool,
    ) -> int:
        """The next step's tokens.

        Args:
            remaining: Tokens left to feed.
            max_step_tokens: The most a step takes.
            cost: What steps cost.
            starts: Whether these are the sequence's first tokens.
            alone: Whether nobody decodes meanwhile.
            alert: Whether urgent requests are about.
            emergency: Whether nobody can be more urgent: it is not cut for anyone.
        """
        most = max_step_tokens if alone else min(max_step_tokens, self.unmeasured_tokens)
        if emergency:
            size = max_step_tokens
        else:
            size = cost.tokens_within(self.budget(alert=alert), _LEAST_TOKENS, max_step_tokens) or most
        if starts:
            size = max(size, min(self.whole_tokens, max_step_tokens))
        size = max(1, min(size, remaining))
        if starts and size == remaining <= self.whole_tokens:
            return size
        return next((one for one in (size, size - 1, size - 2) if one > 1 and not _leaves_one(one, remaining)), size)


def _leaves_one(size: int, remaining: int) -> bool:
    """Whether a token would be on its own, in this step's last block or in a step behind it.

    A single one takes an engine's other kernels, whose sums round differently.
    """
    return size % _BLOCK_TOKENS == 1 or remaining - size == 1
