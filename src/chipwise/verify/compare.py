"""Comparison: reference and candidate on the same tokens, in the same shapes, at the same positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chipwise.engine import Session
from chipwise.errors import EngineError
from chipwise.report.quality import SelfCheck
from chipwise.verify.generate import (
    CHUNK_TOKENS,
    Answer,
    Logits,
    Progress,
    Prompt,
    Turn,
    decode,
    feed,
    first_turn,
    waves,
)
from chipwise.verify.metrics import PositionDrift, concatenate, drift
from chipwise.verify.self_check import self_check


@dataclass(frozen=True)
class CaseComparison:
    """One prompt on both sides.

    Attributes:
        index: The prompt's place among those given.
        reference: The reference's greedy answer.
        candidate: The candidate's greedy answer.
        prompt: Drift at the positions that predict the prompt's tokens, from the second on.
        answer: Drift at the positions that predict the reference's answer, which both were fed (teacher forcing).
    """

    index: int
    reference: Answer
    candidate: Answer
    prompt: PositionDrift
    answer: PositionDrift


@dataclass(frozen=True)
class Comparison:
    """What comparing two sessions gave.

    Attributes:
        cases: The prompts that ran, in order.
        too_long: Places of the prompts that do not fit both contexts and did not run.
        self_checks: Each session against itself; empty if nothing ran.
    """

    cases: tuple[CaseComparison, ...]
    too_long: tuple[int, ...]
    self_checks: tuple[SelfCheck, ...]


def compare(
    reference: Session,
    candidate: Session,
    prompts: Sequence[Prompt],
    *,
    eos_ids: Sequence[int],
    progress: Progress | None = None,
) -> Comparison:
    """Run both sessions over the prompts.

    A wave of prompts, one a slot, is read by both; both answer greedily; then the reference's answers are fed to both.
    Each step of one side has a step of the same shape on the other, except that decoding ends when a side's last
    answer has ended. Logits are reduced to a few numbers a position as they come.

    Args:
        reference: The model as it was.
        candidate: The model as it will run.
        prompts: Token ids to answer, the same for both.
        eos_ids: Tokens that end an answer.
        progress: Told the prompts done.

    Raises:
        EngineError: A runtime failed, or the two have vocabularies of different length.
    """
    pair = _Pair(reference, candidate, tuple(eos_ids))
    room = min(reference.max_context, candidate.max_context)
    fitting = [(i, prompt) for i, prompt in enumerate(prompts) if prompt.context <= room]
    cases: list[CaseComparison] = []
    checks: tuple[SelfCheck, ...] = ()
    for wave in waves(fitting, pair.slots):
        done = pair.run(wave)
        checks = checks or pair.check([prompt for _, prompt in wave], [case.reference for case in done])
        cases += done
        if progress:
            progress(len(cases), len(fitting))
    too_long = tuple(i for i, prompt in enumerate(prompts) if prompt.context > room)
    return Comparison(tuple(cases), too_long, checks)


class _Pair:
    """Two sessions taken through the same steps."""

    def __init__(self, reference: Session, candidate: Session, eos_ids: tuple[int, ...]) -> None:
        if reference is candidate:
            # Its second step would overwrite the logits of the first, and every difference would read zero.
            raise EngineError("reference and candidate are one session", remedy="open the model twice")
        if reference.vocab_size != candidate.vocab_size:
            raise EngineError(
                f"the reference has {reference.vocab_size} tokens, the candidate {candidate.vocab_size}",
                remedy="compare a model with what was built from it",
            )
        self.reference = reference
        self.candidate = candidate
        self.eos_ids = eos_ids
        self.slots = min(reference.n_slots, candidate.n_slots)
        self.chunk_tokens = min(CHUNK_TOKENS, reference.max_step_tokens, candidate.max_step_tokens)

    def run(self, wave: Sequence[tuple[int, Prompt]]) -> list[CaseComparison]:
        """Read, answer and force a wave."""
        read = [self._read(slot, prompt) for slot, (_, prompt) in enumerate(wave)]
        reference = decode(self.reference, [turns[0] for _, turns in read], self.eos_ids)
        candidate = decode(self.candidate, [turns[1] for _, turns in read], self.eos_ids)
        cases = []
        for slot, (index, prompt) in enumerate(wave):
            seen, last = read[slot][0], len(prompt.tokens) - 1
            # The prompt's last position predicts the first answer token.
            answer = concatenate([seen[last:], self._force(slot, prompt, reference[slot].tokens)])
            cases.append(CaseComparison(index, reference[slot], candidate[slot], seen[:last], answer))
        return cases

    def check(self, prompts: Sequence[Prompt], answers: Sequence[Answer]) -> tuple[SelfCheck, ...]:
        """Both sessions against themselves, on the reference's answers to the wave that was just run."""
        tokens = [answer.tokens for answer in answers]
        return tuple(
            self_check(session, name, prompts, tokens, chunk_tokens=self.chunk_tokens)
            for session, name in ((self.reference, "reference"), (self.candidate, "candidate"))
        )

    def _read(self, slot: int, prompt: Prompt) -> tuple[PositionDrift, tuple[Turn, Turn]]:
        """Feed a prompt to both; its last position is compared at the token the reference chooses."""
        parts: list[PositionDrift] = []
        turns: tuple[Turn, Turn] | None = None
        for start, ours, theirs in self._feed_both(slot, prompt.tokens):
            targets = list(prompt.tokens[start + 1 : start + len(ours) + 1])
            if len(targets) < len(ours):
                turns = first_turn(prompt, ours[-1]), first_turn(prompt, theirs[-1])
                targets.append(turns[0].first)
            parts.append(drift(ours, theirs, np.array(targets, np.int64)))
        if turns is None:
            raise EngineError("an empty prompt cannot be answered", remedy="give the case a text")
        return concatenate(parts), turns

    def _force(self, slot: int, prompt: Prompt, answer: Sequence[int]) -> PositionDrift:
        """Feed an answer to both after their prompt, compared from its second token on."""
        parts = [
            drift(ours, theirs, np.array(answer[start + 1 : start + len(ours) + 1], np.int64))
            for start, ours, theirs in self._feed_both(slot, answer[:-1], past=len(prompt.tokens))
        ]
        return concatenate(parts)

    def _feed_both(self, slot: int, tokens: Sequence[int], *, past: int = 0) -> Iterator[tuple[int, Logits, Logits]]:
        """Feed the same tokens to both; yields where a chunk starts and both sides' logits of it."""
        ours, theirs = (
            feed(session, slot, tokens, past=past, chunk_tokens=self.chunk_tokens, logits="all")
            for session in (self.reference, self.candidate)
        )
        start = 0
        for one, other in zip(ours, theirs, strict=True):
            yield start, one, other
            start += len(one)
