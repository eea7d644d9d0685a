from __future__ import annotations

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import EngineError
from chipwise.verify.compare import Comparison, compare
from chipwise.verify.generate import Prompt, generate
from chipwise.verify.metrics import concatenate, drift, summarise
from tests.verify.fakes import EOS, Array, TinySession, prompts_of

PROMPTS = [Prompt(tokens, 8) for tokens in prompts_of(1, 7)]
SLOTS = 3


def against(candidate: TinySession, reference: TinySession | None = None) -> Comparison:
    return compare(reference or TinySession(), candidate, PROMPTS, eos_ids=[EOS])


def answers_of(found: Comparison) -> float:
    return summarise(concatenate([case.answer for case in found.cases])).kl_mean_nats


def test_equal_sessions_do_not_differ() -> None:
    found = against(TinySession())
    assert [case.index for case in found.cases] == list(range(7))
    assert all(case.reference == case.candidate for case in found.cases)
    both = concatenate([part for case in found.cases for part in (case.prompt, case.answer)])
    assert summarise(both).kl_max_nats == 0
    assert summarise(both).top1_agreement == 1
    assert [check.session for check in found.self_checks] == ["reference", "candidate"]
    assert max(check.kl_max_nats for check in found.self_checks) < 1e-5


def test_positions_are_those_that_predict_a_token_given() -> None:
    for case, prompt in zip(against(TinySession(noise=0.2)).cases, PROMPTS, strict=True):
        # All positions of a prompt are compared in the first wave only.
        assert len(case.prompt) == (len(prompt.tokens) - 1 if case.index < SLOTS else 0)
        assert len(case.answer) == len(case.reference.tokens)


def test_each_position_has_the_drift_of_the_text_read_at_once() -> None:
    found = against(TinySession(noise=0.2))
    for case, prompt in zip(found.cases, PROMPTS, strict=True):
        text = np.array([[*prompt.tokens, *case.reference.tokens]], np.int64)
        batch = Batch(0, text[:, :-1], np.zeros(1, np.int64), "all")
        ours, theirs = (
            TinySession(noise=noise, max_step_tokens=64, max_context=64).step(batch).logits[0] for noise in (0, 0.2)
        )
        expected = drift(ours, theirs, text[0, 1:])
        both = concatenate([case.prompt, case.answer])
        seen = slice(len(expected) - len(both), None)
        np.testing.assert_allclose(both.kl_nats, expected.kl_nats[seen], atol=1e-5)
        np.testing.assert_allclose(both.nll_candidate_nats, expected.nll_candidate_nats[seen], atol=1e-4)
        assert both.agree.tolist() == expected.agree.tolist()[seen]


def test_answers_are_those_each_gives_alone() -> None:
    found = against(TinySession(noise=0.3))
    assert [case.reference for case in found.cases] == generate(TinySession(), PROMPTS, eos_ids=[EOS])
    assert [case.candidate for case in found.cases] == generate(TinySession(noise=0.3), PROMPTS, eos_ids=[EOS])


def test_more_damage_more_drift() -> None:
    drifts = [answers_of(against(TinySession(noise=noise))) for noise in (0.02, 0.1, 0.4)]
    assert drifts[0] < drifts[1] < drifts[2]


def test_both_take_the_same_tokens_through_the_same_shapes() -> None:
    reference, candidate = TinySession(), TinySession(noise=0.3)
    compare(reference, candidate, PROMPTS[:SLOTS], eos_ids=[])
    prompts = sum(-(-len(prompt.tokens) // 5) for prompt in PROMPTS[:SLOTS])
    together = prompts + 7
    assert reference.steps[:together] == candidate.steps[:together]
    # The reference goes on with its self-check, the candidate with its own answers and then its self-check.
    assert len(candidate.steps) - len(reference.steps) == 7
    assert all(step.rows == SLOTS for step in candidate.steps[together : together + 7])


def test_a_session_with_shorter_steps_or_fewer_slots_sets_both() -> None:
    reference, candidate = TinySession(n_slots=3, max_step_tokens=9), TinySession(n_slots=2, max_step_tokens=2)
    found = compare(reference, candidate, PROMPTS, eos_ids=[])
    assert max(s.new_tokens for s in reference.steps) == 2
    assert max(s.rows for s in reference.steps) == 2
    assert answers_of(found) == 0


def test_a_fault_in_decoding_shows_in_answers_not_in_prompts_and_the_self_check_says_whose_it_is() -> None:
    found = against(TinySession(fault="shift"))
    assert summarise(concatenate([case.prompt for case in found.cases])).kl_max_nats < 1e-5
    assert answers_of(found) > 0.1
    assert any(case.reference != case.candidate for case in found.cases)
    assert found.self_checks[0].kl_max_nats < 1e-5
    assert found.self_checks[1].kl_max_nats > 0.01


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_nan_is_counted_on_the_side_that_has_it(side: str) -> None:
    def spoil(logits: Array, batch: Batch) -> None:
        if 17 in batch.tokens:
            logits[0, -1, 3] = np.nan

    sides = {"reference": TinySession(), "candidate": TinySession(), side: TinySession(spoil=spoil)}
    found = compare(sides["reference"], sides["candidate"], PROMPTS, eos_ids=[EOS])
    both = concatenate([part for case in found.cases for part in (case.prompt, case.answer)])
    total = summarise(both)
    assert len(found.cases) == len(PROMPTS)
    assert (total.nonfinite_reference > 0) == (side == "reference")
    assert (total.nonfinite_candidate > 0) == (side == "candidate")


def test_prompts_that_do_not_fit_are_named() -> None:
    prompts = [Prompt((3, 4, 5), 4), Prompt(tuple(range(3, 33)), 4), Prompt((6, 7), 4)]
    found = compare(TinySession(max_context=64), TinySession(max_context=20), prompts, eos_ids=[])
    assert found.too_long == (1,)
    assert [case.index for case in found.cases] == [0, 2]


def test_nothing_fits() -> None:
    found = compare(TinySession(), TinySession(), [Prompt((3,), 1000)], eos_ids=[])
    assert found == Comparison((), (0,), ())


def test_a_prompt_of_one_token() -> None:
    found = compare(TinySession(), TinySession(), [Prompt((7,), 3)], eos_ids=[])
    assert len(found.cases[0].prompt) == 0
    assert len(found.cases[0].answer) == 3


def test_an_empty_prompt_is_an_error() -> None:
    with pytest.raises(EngineError, match="empty prompt"):
        compare(TinySession(), TinySession(), [Prompt((), 3)], eos_ids=[])


def test_one_session_cannot_be_both() -> None:
    session = TinySession()
    with pytest.raises(EngineError, match="one session"):
        compare(session, session, PROMPTS, eos_ids=[])


def test_other_vocabularies_cannot_be_compared() -> None:
    with pytest.raises(EngineError, match="41 tokens, the candidate 43"):
        compare(TinySession(), NullSession(2, 64, NullOptions(vocab_size=43)), PROMPTS, eos_ids=[])


def test_progress() -> None:
    seen: list[tuple[int, int]] = []
    compare(TinySession(), TinySession(), PROMPTS, eos_ids=[], progress=lambda done, of: seen.append((done, of)))
    assert seen == [(3, 7), (6, 7), (7, 7)]
