"""Sampling: what a request asks for, and the choice of its next token from one row of logits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# By name: numpy loads this part of itself when it is first used, which would be in the middle of serving.
from numpy.random import Generator, SeedSequence, default_rng

from chipwise.errors import EngineError

# Below this, exp((l - max) / T) underflows for any two logits that differ: sampling is the greedy choice.
_GREEDY_BELOW = 1e-5
# Sums and maxima are kept a block of this many logits: searching them costs a fraction of searching all.
_BLOCK = 256


@dataclass(frozen=True)
class SamplingParams:
    """How the tokens of one answer are chosen.

    Attributes:
        temperature: What logits are divided by; 0 is greedy.
        top_p: Only the smallest set of likeliest tokens that holds this share of probability is drawn from.
        seed: Makes the draws repeatable; None draws anew each time.
        logprobs: How many likeliest tokens are reported beside each chosen one; None reports nothing.
        choice: Which of several answers to one request this is: each has draws of its own from one seed.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    logprobs: int | None = None
    choice: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature < _GREEDY_BELOW

    def generator(self) -> Generator:
        """The answer's own source of chance. Choice 0 has that of a request for one answer."""
        seed = None if self.seed is None else self.seed & (1 << 64) - 1
        # NumPy's own way to independent streams of one seed; without a key it is the seed's plain stream.
        return default_rng(SeedSequence(seed, spawn_key=(self.choice,) if self.choice else ()))


@dataclass(frozen=True)
class TokenLogprobs:
    """A chosen token and its rivals, under the model's own distribution (before temperature and top_p).

    Attributes:
        token: The chosen token's id.
        logprob: Its natural log probability.
        top: The likeliest tokens with theirs, likeliest first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Sampler:
    """Chooses tokens, in buffers of its own: no step allocates a row of the vocabulary. One thread uses it."""

    def __init__(self, vocab_size: int) -> None:
        self._starts = np.arange(0, vocab_size, _BLOCK)
        # One row a block; what lies behind the vocabulary stays 0.
        self._blocks = np.zeros((len(self._starts), _BLOCK), dtype=np.float32)
        self._weights = self._blocks.reshape(-1)[:vocab_size]
        self._chosen = np.empty(vocab_size, dtype=np.bool_)
        self._masked = np.empty(vocab_size, dtype=np.float32)

    def sample(
        self,
        logits: npt.NDArray[np.float32],
        params: SamplingParams,
        chance: Generator,
        allowed: npt.NDArray[np.bool_] | None = None,
        *,
        best: int | None = None,
    ) -> int:
        """The next token's id. Of equal logits, the lower id counts as the likelier.

        Args:
            logits: float32 ``[vocab]``; left as it is.
            params: What the request asks for.
            chance: The request's generator; one number is drawn unless the choice is greedy.
            allowed: The tokens to choose from, bool ``[vocab]``; the others count as impossible. None for all.
            best: The likeliest token of all, if these logits were checked; None looks for it.

        Raises:
            EngineError: The logits hold NaN, or nothing but infinities, of all tokens or of those allowed.
        """
        if best is None:
            best = int(logits.argmax())
            if not math.isfinite(logits[best]):  # argmax stops at the first NaN
                raise EngineError(f"the model's logits hold {float(logits[best])}")
        if allowed is not None and not (params.greedy and allowed[best]):
            logits = self._mask(logits, allowed)
            best = int(logits.argmax())
            if not math.isfinite(logits[best]):
                raise EngineError("none of the tokens that the grammar allows is possible to the model")
        if params.greedy:
            return best
        self._weigh(logits, float(logits[best]), params.temperature)
        draw = float(chance.random())
        return self._draw(draw) if params.top_p >= 1.0 else self._draw_nucleus(logits, draw, params.top_p)

    def logprobs(self, logits: npt.NDArray[np.float32], token: int, n_top: int) -> TokenLogprobs:
        """The log probability of a token and of the ``n_top`` likeliest ones.

        Args:
            logits: float32 ``[vocab]``.
            token: The chosen token's id.
            n_top: How many of the likeliest to give, 0 or more.
        """
        peak = float(logits.max())
        self._weigh(logits, peak, 1.0)
        log_total = peak + math.log(float(self._block_sums().sum()))
        top = tuple((int(i), float(logits[i]) - log_total) for i in self._likeliest(logits, n_top))
        return TokenLogprobs(token, float(logits[token]) - log_total, top)

    def _mask(self, logits: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        self._masked.fill(-np.inf)
        np.copyto(self._masked, logits, where=allowed)
        return self._masked

    def _weigh(self, logits: npt.NDArray[np.float32], peak: float, temperature: float) -> None:
        # float32 is as exact as the logits are: at |l| = 20 they carry an error of 1e-6, exp adds 1e-7.
        weights = self._weights
        np.subtract(logits, np.float32(peak), out=weights)
        if temperature != 1.0:
            with np.errstate(over="ignore"):  # -inf is right: the weight is 0
                np.multiply(weights, np.float32(1.0 / temperature), out=weights)
        np.exp(weights, out=weights)

    def _block_sums(self) -> npt.NDArray[np.float64]:
        # einsum adds along rows at the speed of memory, twice that of sum(axis=1).
        sums: npt.NDArray[np.float64] = np.einsum("ij->i", self._blocks).astype(np.float64)
        return sums

    def _draw(self, draw: float) -> int:
        blocks = self._block_sums().cumsum()
        at = draw * float(blocks[-1])
        block = min(int(blocks.searchsorted(at, side="right")), len(blocks) - 1)
        start = block * _BLOCK
        inside = self._weights[start : start + _BLOCK].cumsum(dtype=np.float64)
        rest = at - float(blocks[block - 1]) if block else at
        return start + _index(inside, rest)

    def _draw_nucleus(self, logits: npt.NDArray[np.float32], draw: float, top_p: float) -> int:
        weights = self._weights
        total = float(self._block_sums().sum())
        wanted = top_p * total * (1.0 - 1e-9)
        # Tokens lighter than the second bound weigh at most 1 - top_p together (the tenth taken off is for rounding),
        # so the nucleus lies within the others. Mostly it lies within the few that pass the first.
        for lightest in (1e-4 * total, 0.9 * (1.0 - top_p) * total / len(weights)):
            np.greater(weights, np.float32(lightest), out=self._chosen)
            ids = np.flatnonzero(self._chosen)
            ids = ids[np.argsort(-logits[ids], kind="stable")]
            sums = weights[ids].cumsum(dtype=np.float64)
            if len(sums) and sums[-1] >= wanted:
                break
        count = min(int(sums.searchsorted(wanted, side="left")) + 1, len(sums))
        return int(ids[_index(sums[:count], draw * float(sums[count - 1]))])

    def _likeliest(self, logits: npt.NDArray[np.float32], count: int) -> list[int]:
        if count == 0:
            return []
        # At least `count` logits reach the count-th largest maximum of a block; few others do.
        maxima = np.maximum.reduceat(logits, self._starts)
        least = np.partition(maxima, -count)[-count] if count <= len(maxima) else logits.min()
        np.greater_equal(logits, least, out=self._chosen)
        ids = np.flatnonzero(self._chosen)
        found: list[int] = ids[np.argsort(-logits[ids], kind="stable")[:count]].tolist()
        return found


def _index(sums: npt.NDArray[np.float64], at: float) -> int:
    """The first entry whose running sum exceeds ``at``; rounding never leads to one without weight."""
    found = int(sums.searchsorted(at, side="right"))
    return found if found < len(sums) else int(sums.searchsorted(sums[-1], side="left"))
