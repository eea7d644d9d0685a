"""EarlierAnswers: what was answered before under the same grammar, for the next answer's look-ups."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from chipwise.serve.text.grammar import Grammar

NOTHING: npt.NDArray[np.int64] = np.empty(0, np.int64)
"""There was no such answer."""

# An agent asks with a few schemas at a time. The compiled grammars live as long as they are here.
_KEPT = 32
_MOST_TOKENS = 512
# The end of the prompt stands before every answer alike: behind it the first tokens are found.
_PROMPT_TOKENS = 8


class EarlierAnswers:
    """The latest answer of each client under each grammar.

    Calls of the same tools differ in a few values; names, order and white space, which the grammar leaves open, come
    again. One client's answers are never looked up for another's. Answers without a grammar have no such form, so
    they are not kept.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, Grammar], npt.NDArray[np.int64]] = OrderedDict()

    def of(self, client: str, grammar: Grammar | None) -> npt.NDArray[np.int64]:
        """The last tokens of a prompt and the answer to it, int64 ``[n]``; empty if there was none."""
        return NOTHING if grammar is None else self._kept.get((client, grammar), NOTHING)

    def keep(self, client: str, grammar: Grammar | None, tokens: npt.NDArray[np.int64], said: int) -> None:
        """An answer is whole.

        Args:
            client: Whose it is.
            grammar: Its grammar; None if it has none.
            tokens: Token ids of the prompt and the answer, int64 ``[n]``.
            said: How many of them are the answer's.
        """
        if grammar is None:
            return
        key, first = (client, grammar), max(0, len(tokens) - said - _PROMPT_TOKENS)
        self._kept[key] = tokens[first : first + _MOST_TOKENS].copy()
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
