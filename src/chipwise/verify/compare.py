"""Comparison: reference and candidate on the same tokens, in the same shapes, at the same positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chipwise.engine import Session
from chipwise.errors import EngineError
from chipwise.report.quality import SelfCheck
from chipwise.verify.generate import (
    CHUNK_TOKENS,
    Answer,
    Progress,
    Prompt,
    Turn,
    decode,
    feed,
    first_turn,
    waves,
)
from chipwise.verify.lockstep import answer_in_lockstep
from chipwise.verify.metrics import PositionDrift, concatenate, drift
from chipwise.verify.self_check import self_check
from chipwise.verify.shared_prefix import SharedPrefix


@dataclass(frozen=True)
class CaseComparison:
    """One prompt on both sides.

    Attributes:
        index: The prompt's place among those given.
        reference: The reference's greedy answer.
        candidate: The candidate's greedy answer.
        prompt: Drift at the positions that predict the prompt's tokens, from the second on; of the first wave only.
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

    A wave of prompts, one a slot, is read by both. The reference answers greedily, and the candidate is fed the same
    tokens in the same steps; then the candidate answers greedily on its own. Logits are reduced to a few numbers a
    position as they come.

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
        # Prompts are long and no one reads their drift a token: the first wave shows whether reading is at fault.
        done = pair.run(wave, whole_prompts=not cases)
        checks = checks or pair.check([prompt for _, prompt in wave], [case.reference for case in done])
        cases += done
        if progress:
            progress(len(cases), len(fitting))
    too_long = tuple(i for i, prompt in enumerate(prompts) if prompt.context > room)
    return Comparison(tuple(cases), too_long, checks)


def _same(answer: PositionDrift) -> bool:
    return bool(answer.agree.all() and answer.finite_reference.all() and answer.finite_candidate.all())


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
        self.prefix = SharedPrefix([reference, candidate])
        self.slots = min(reference.n_slots, candidate.n_slots)
        self.chunk_tokens = min(CHUNK_TOKENS, reference.max_step_tokens, candidate.max_step_tokens)

    def run(self, wave: Sequence[tuple[int, Prompt]], *, whole_prompts: bool) -> list[CaseComparison]:
        """Read and answer a wave."""
        read = [self._read(slot, prompt, whole=whole_prompts) for slot, (_, prompt) in enumerate(wave)]
        ours, drifts = answer_in_lockstep(self.reference, self.candidate, [turns[0] for _, turns in read], self.eos_ids)
        # The prompt's last position predicts the first answer token.
        answers = [concatenate([seen[len(seen) - 1 :], *parts]) for (seen, _), parts in zip(read, drifts, strict=True)]
        if all(_same(answer) for answer in answers):
            # At each step it would have chosen what it was fed: left to itself it takes the same steps once more.
            theirs = ours
        else:
            theirs = decode(self.candidate, [turns[1] for _, turns in read], self.eos_ids)
        return [
            CaseComparison(index, ours[slot], theirs[slot], read[slot][0][:-1], answers[slot])
            for slot, (index, _) in enumerate(wave)
        ]

    def check(self, prompts: Sequence[Prompt], answers: Sequence[Answer]) -> tuple[SelfCheck, ...]:
        """Both sessions against themselves, on the reference's answers to the wave that was just run."""
        tokens = [answer.tokens for answer in answers]
        return tuple(
            self_check(session, name, prompts, tokens, chunk_tokens=self.chunk_tokens)
            for session, name in ((self.reference, "reference"), (self.candidate, "candidate"))
        )

    def _read(self, slot: int, prompt: Prompt, *, whole: bool) -> tuple[PositionDrift, tuple[Turn, Turn]]:
        """Feed a prompt to both; all positions or the last are compared, the last at the reference's token."""
        parts: list[PositionDrift] = []
        turns: tuple[Turn, Turn] | None = None
        kind: Literal["all", "last"] = "all" if whole else "last"
        end = self.prefix.place(slot, prompt.tokens, whole=whole)
        ours, theirs = (
            feed(session, slot, prompt.tokens[end:], past=end, chunk_tokens=self.chunk_tokens, logits=kind)
            for session in (self.reference, self.candidate)
        )
        for one, other in zip(ours, theirs, strict=True):
            start, end = end, min(end + self.chunk_tokens, len(prompt.tokens))
            targets = list(prompt.tokens[start + 1 : end + 1])
            if end == len(prompt.tokens):
                turns = first_turn(prompt, one[-1]), first_turn(prompt, other[-1])
                targets.append(turns[0].first)
            if whole or turns:
                parts.append(drift(one, other, np.array(targets[-len(one) :], np.int64)))
        if turns is None:
            raise EngineError("an empty prompt cannot be answered", remedy="give the case a text")
        return concatenate(parts), turns
