"""Speculation: whether guessing pays in the next step, and how far ahead."""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass

from chipwise.engine.session import Session, draft_limits
from chipwise.model.tokenizer import Tokenizer
from chipwise.serve.request.request import Request
from chipwise.serve.request.sequence import Sequence
from chipwise.serve.schedule.step_cost import StepCost
from chipwise.serve.speculation.acceptance import Acceptance
from chipwise.serve.speculation.draft import NO_DRAFT, Draft
from chipwise.serve.speculation.drafter import Drafter
from chipwise.serve.speculation.earlier_answers import EarlierAnswers
from chipwise.serve.speculation.forced_text import ForcedText
from chipwise.serve.text.grammar import GrammarState
from chipwise.serve.text.vocabulary import Vocabulary

# Guessing has to promise this much more tokens a second: estimates err.
_LEAST_GAIN = 1.05
# One who guesses badly tries again after so many tokens, and twice as many each time that fails.
_FIRST_PROBE_TOKENS, _LAST_PROBE_TOKENS = 32, 128
# Before any was measured, a guessed token is assumed to take this part of a step, and so many are guessed at most.
_ASSUMED_SHARE, _UNMEASURED_TOKENS = 0.3, 2


# Of longer ones the end is hardly ever right, and a step takes long for others.
_MOST_TOKENS = 16


@dataclass(frozen=True)
class DraftLimits:
    """What a session lets be checked.

    Attributes:
        tokens: The most guessed tokens a row.
        rows: The most rows of a step that checks some.
        context: Tokens a slot holds.
    """

    tokens: int
    rows: int
    context: int


class Speculation:
    """Plans drafts for one session, and learns from what became of them. Pure: durations are those of ``StepCost``."""

    def __init__(self, limits: DraftLimits, forced: ForcedText) -> None:
        self._limits = limits
        self._forced = forced
        self._acceptance = Acceptance()
        self._earlier = EarlierAnswers()
        self.n_speculated = self.n_accepted = 0
        """Tokens that were guessed and checked, and how many of them were right."""

    def drafter(self, request: Request, constraint: GrammarState | None) -> Drafter:
        """The drafter of a new answer, which stands at the start of the request's grammar."""
        earlier = self._earlier.of(request.client, request.grammar)
        return Drafter(Acceptance(self._acceptance), constraint, self._forced, earlier)

    def plan(self, sequences: Several[Sequence], cost: StepCost, budget_s: float) -> list[Draft]:
        """A draft for each of those that decode in the next step; all empty if that does not pay.

        Args:
            sequences: Those that decode. Their tokens but the last are in their slots.
            cost: What steps cost.
            budget_s: How long the step may take.
        """
        nothing = [NO_DRAFT] * len(sequences)
        plain_s = cost.predict_s("decode", len(sequences))
        if plain_s is None or len(sequences) > self._limits.rows:
            return nothing
        # Padding, too, has to lie inside of the slots.
        most = min(_MOST_TOKENS, self._limits.tokens, *(self._limits.context - one.known for one in sequences))
        if cost.predict_s("draft", 1) is None:
            most = min(most, _UNMEASURED_TOKENS)
        most = _affordable(cost, plain_s, budget_s, most, len(sequences))
        if most < 1:
            return nothing
        drafts = [_draft(one, most) for one in sequences]
        width = self._width(sequences, drafts, cost, plain_s)
        if width:
            return [draft.first(width) for draft in drafts]
        # If guessing does not pay for one who guesses badly, it still may; not if it would not pay for anybody.
        worth = (len(sequences) + 1) / (plain_s + _extra_s(cost, plain_s, len(sequences))) > len(sequences) / plain_s
        return self._probes(sequences, drafts, _LAST_PROBE_TOKENS if not worth else 0)

    def checked(self, sequence: Sequence, draft: Draft, right: int) -> None:
        """A draft of a sequence was checked: so many of its first tokens were right."""
        drafter = sequence.drafter
        if drafter is None:
            return
        drafter.acceptance.learn(draft, right)
        self.n_speculated += len(draft)
        self.n_accepted += right
        if right:
            drafter.probe_gap = 0
        else:
            drafter.probe_gap = min(max(_FIRST_PROBE_TOKENS, 2 * drafter.probe_gap), _LAST_PROBE_TOKENS)
        drafter.until_probe = max(drafter.probe_gap, drafter.least_gap)
        drafter.least_gap = 0

    def complete(self, sequence: Sequence) -> None:
        """A sequence's answer is whole."""
        request = sequence.request
        self._earlier.keep(request.client, request.grammar, sequence.tokens[: sequence.known], sequence.said)

    def _width(self, sequences: Several[Sequence], drafts: list[Draft], cost: StepCost, plain_s: float) -> int:
        """How many tokens a row pay best; 0 if none do."""
        rows = len(sequences)
        expected = [_expected(one, draft) for one, draft in zip(sequences, drafts, strict=True)]
        best, best_rate = 0, _LEAST_GAIN * rows / plain_s
        for width in range(1, max(map(len, drafts), default=0) + 1):
            gained = sum(row[min(width, len(row)) - 1] for row in expected if row)
            rate = (rows + gained) / (plain_s + _extra_s(cost, plain_s, rows * width))
            if rate > best_rate:
                best, best_rate = width, rate
        return best

    def _probes(self, sequences: Several[Sequence], drafts: list[Draft], least_gap: int) -> list[Draft]:
        """One token of one who has not guessed for long: things may have changed."""
        found = [NO_DRAFT] * len(sequences)
        for row, (sequence, draft) in enumerate(zip(sequences, drafts, strict=True)):
            if sequence.drafter is None or not draft:
                continue
            if sequence.drafter.until_probe > 0:
                sequence.drafter.until_probe -= 1
            elif not any(found):
                found[row] = draft.first(1)
                sequence.drafter.least_gap = least_gap
        return found


def _draft(sequence: Sequence, most: int) -> Draft:
    left = sequence.request.max_tokens - sequence.said - 1
    if sequence.drafter is None:
        return NO_DRAFT
    return sequence.drafter.draft(sequence.tokens[: sequence.known], min(most, left))


def _expected(sequence: Sequence, draft: Draft) -> list[float]:
    return [] if sequence.drafter is None else sequence.drafter.acceptance.expected(draft)


def _extra_s(cost: StepCost, plain_s: float, tokens: int) -> float:
    """How much longer a decode step takes with so many tokens more."""
    found = cost.predict_s("draft", tokens)
    return _ASSUMED_SHARE * plain_s * tokens if found is None else found


def _affordable(cost: StepCost, plain_s: float, budget_s: float, most: int, rows: int) -> int:
    """The most tokens a row that keep a step within its time."""
    while most > 0 and plain_s + _extra_s(cost, plain_s, rows * most) > budget_s:
        most //= 2
    return most


def make_speculation(session: Session, tokenizer: Tokenizer, vocabulary: Vocabulary) -> Speculation | None:
    """What guesses for a session; None if it checks no guesses."""
    tokens, rows = draft_limits(session)
    if tokens < 1 or rows < 1:
        return None
    return Speculation(DraftLimits(tokens, rows, session.max_context), ForcedText(tokenizer, vocabulary))
