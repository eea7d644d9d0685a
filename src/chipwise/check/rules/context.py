"""Rules about the length of the context."""

from __future__ import annotations

from collections.abc import Iterator

from chipwise.check.check_input import CheckInput
from chipwise.check.rule import Hit, rule


@rule
def context_of_model(given: CheckInput) -> Iterator[Hit]:
    """The context is longer than the model was trained for.

    Why: Positions that it never saw give words that mean nothing, without any error.

    Limit: The model's own `max_position_embeddings`.

    Remedy: Ask for a shorter context, or take a model that was trained for this one.
    """
    if given.config is not None and given.max_context is not None and given.max_context > given.config.max_positions:
        yield Hit("error", given.name, f"{given.max_context} tokens", f"{given.config.max_positions} tokens")


@rule
def context_of_target(given: CheckInput) -> Iterator[Hit]:
    """The context is none that the target's language-model runtime takes.

    Why: The runtime refuses to load the model (RKLLM: at most 16384 tokens, in multiples of 32).

    Limit: `context_max_tokens` and `context_multiple_tokens` of the target, from its runtime's documentation.

    Remedy: Ask for a context within the limit.
    """
    if given.decoder is None or given.max_context is None:
        return
    wanted = given.max_context
    most, multiple = given.limits.context_max_tokens, given.limits.context_multiple_tokens
    if most is not None and wanted > int(most):
        yield Hit("error", given.target.name, f"{wanted} tokens", f"at most {int(most)} tokens")
    if multiple is not None and wanted % int(multiple):
        step = int(multiple)
        fits = wanted + step if most is None else min(wanted + step, int(most))
        yield Hit(
            "error",
            given.target.name,
            f"{wanted} tokens",
            f"a multiple of {step} tokens",
            remedy=f"Ask for {fits // step * step} tokens",
        )
