"""ForcedText: text that a grammar forces, cut into the tokens that the model would most likely take for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chipwise.model.tokenizer import Tokenizer
from chipwise.serve.text.grammar import GrammarState
from chipwise.serve.text.vocabulary import Vocabulary

# How a text is cut depends on a few tokens before it.
_CONTEXT_TOKENS = 8
# Where more tokens than this may come, the text's end may well be the middle of one.
_FEW = 256


class ForcedText:
    """Cuts forced text as the tokenizer cuts it behind what was said: so it was cut where the model learned from.

    Several cuts can write one text, and the mask lets the model choose any. So these tokens are a guess like others.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary

    def tokens(self, said: npt.NDArray[np.int64], state: GrammarState) -> list[int]:
        """The tokens of the text that a grammar forces next; none if it forces none, or its cut is not clear.

        Args:
            said: Token ids so far, int64 ``[n]``.
            state: Where the answer stands in its grammar.
        """
        forced = _whole_characters(state.forced())
        if not forced:
            return []
        ids = self._cut(said, forced)
        ids = ids[: state.count_valid(ids)]
        return ids[:-1] if ids and self._may_be_longer(ids, state) else ids

    def _cut(self, said: npt.NDArray[np.int64], forced: str) -> list[int]:
        before = self._text_before(said)
        ids = self._tokenizer.encode(before + forced, add_bos=False)
        # From the end, as many tokens as write just the forced text; the front may be cut otherwise than it was said.
        wanted, taken = len(forced.encode()), 0
        for at in range(len(ids) - 1, -1, -1):
            taken += len(self._vocabulary.token_bytes(ids[at]))
            if taken == wanted:
                return ids[at:]
            if taken > wanted:
                break
        return []

    def _text_before(self, said: npt.NDArray[np.int64]) -> str:
        parts: list[bytes] = []
        for token in reversed(said[-_CONTEXT_TOKENS:].tolist()):
            raw = self._vocabulary.token_bytes(token)
            if not raw:
                break
            parts.append(raw)
        return b"".join(reversed(parts)).decode(errors="ignore")

    def _may_be_longer(self, ids: list[int], state: GrammarState) -> bool:
        """Whether a longer token might stand in the last one's place, one that goes on behind the forced text."""
        before = state.after(ids[:-1])
        allowed = np.flatnonzero(before.allowed())
        last = self._vocabulary.token_bytes(ids[-1])
        if len(allowed) > _FEW:
            return True
        found = (self._vocabulary.token_bytes(token) for token in allowed.tolist())
        return any(len(raw) > len(last) and raw.startswith(last) for raw in found)


def _whole_characters(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as e:
        return raw[: e.start].decode()
