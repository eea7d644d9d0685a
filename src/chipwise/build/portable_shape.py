"""PortableShape: the fixed sizes of the graphs for a chip that takes no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chipwise.errors import InputError
from chipwise.rewrite.passes.fix_shapes import length_for
from chipwise.target.target import Target

# What lengths are a multiple of where the chip's runtime does not say.
_MULTIPLE = 32


@dataclass(frozen=True)
class PortableShape:
    """Sizes of the static graphs.

    Attributes:
        tokens: Tokens that prefill reads at once; longer prompts go on through decode, one token a step.
        context: Tokens that the cache holds.
    """

    tokens: int
    context: int

    @classmethod
    def choose(
        cls, target: Target, prompts: Sequence[int], contexts: Sequence[int], *, limit: int, asked: bool
    ) -> PortableShape:
        """Prefill takes 95 % of the prompts whole; the cache holds every conversation, or what the user asked for.

        Args:
            target: The chip, for the multiple its runtime wants.
            prompts: Lengths of the user's prompts, in tokens.
            contexts: Lengths with their answers.
            limit: The longest context, in tokens.
            asked: Whether the user named that limit, so that the cache shall be as long.

        Raises:
            InputError: The limit is below one multiple.
        """
        found = target.constraints.context_multiple_tokens
        multiple = _MULTIPLE if found is None else int(found)
        most = limit // multiple * multiple
        if most < multiple:
            raise InputError(
                f"a context of {limit} tokens is no multiple of the {multiple} that {target.name} takes",
                where="--context",
                remedy=f"ask for at least {multiple}",
            )
        context = most if asked else min(most, length_for(contexts, 1.0, multiple))
        return cls(min(context, length_for(prompts, multiple=multiple)), context)
