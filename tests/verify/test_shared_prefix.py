"""What prompts share is read once, and answers do not change by it."""

from __future__ import annotations

import pytest

from chipwise.verify.compare import compare
from chipwise.verify.generate import Prompt, generate
from chipwise.verify.shared_prefix import SharedPrefix
from tests.verify.fakes import TinySession

SYSTEM = tuple(range(5, 25))
PROMPTS = [Prompt((*SYSTEM, *ending), 6) for ending in ((30,), (31, 32), (33, 7, 8), (34,), (30, 9, 9), ())]


def test_answers_are_those_of_prompts_read_whole() -> None:
    alone = [generate(TinySession(), [prompt], eos_ids=[])[0] for prompt in PROMPTS]
    session = TinySession()
    assert generate(session, PROMPTS, eos_ids=[]) == alone
    fed = sum(step.new_tokens for step in session.steps if step.rows == 1 and step.past[0] < len(SYSTEM))
    # Once in full, then only what differs: a prompt that is no more than the beginning is left its last token.
    assert fed == len(SYSTEM) + 1


def test_both_sides_of_a_comparison_read_the_same() -> None:
    reference, candidate = TinySession(), TinySession()
    found = compare(reference, candidate, PROMPTS, eos_ids=[])
    assert max(case.answer.kl_nats.max() for case in found.cases) == 0
    assert [case.reference for case in found.cases] == generate(TinySession(), PROMPTS, eos_ids=[])
    second_wave = [step for step in candidate.steps if step.rows == 1 and step.tokens[0][0] == 34]
    assert [step.past for step in second_wave] == [(len(SYSTEM),)]


@pytest.mark.parametrize(("slot", "moved"), [(0, False), (1, True)])
def test_slot_0_keeps_its_own(slot: int, moved: bool) -> None:
    moves: list[tuple[int, int, int]] = []

    class Watched(TinySession):
        def move_slot(self, source: int, target: int, tokens: int) -> None:
            moves.append((source, target, tokens))

    prefix = SharedPrefix([Watched()])
    assert prefix.place(0, PROMPTS[0].tokens) == 0
    assert prefix.place(slot, PROMPTS[1].tokens) == len(SYSTEM)
    assert moves == ([(0, 1, len(SYSTEM))] if moved else [])


def test_short_beginnings_and_whole_prompts_are_fed() -> None:
    prefix = SharedPrefix([TinySession()])
    assert prefix.place(0, (1, 2, 3, 4)) == 0
    assert prefix.place(1, (1, 2, 3, 5)) == 0
    assert prefix.place(0, PROMPTS[0].tokens) == 0
    assert prefix.place(1, PROMPTS[0].tokens, whole=True) == 0
    assert prefix.place(1, ()) == 0
