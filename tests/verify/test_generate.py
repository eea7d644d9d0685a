from __future__ import annotations

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.engine.null import NullOptions, NullSession
from chipwise.errors import EngineError
from chipwise.verify.generate import Answer, Prompt, generate, waves
from tests.verify.fakes import EOS, Array, TinySession, prompts_of


def one_by_one(prompt: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    """The greedy answer with the whole text read again for each token, in a session of its own."""
    session = TinySession(n_slots=1, max_step_tokens=64)
    text = list(prompt)
    while len(text) - len(prompt) < max_tokens:
        out = session.step(Batch(0, np.array([text], np.int64), np.zeros(1, np.int64)))
        text.append(int(out.logits[0].argmax()))
        if text[-1] == EOS:
            break
    return tuple(text[len(prompt) :])


@pytest.mark.parametrize("n_slots", [1, 2, 3, 8])
def test_answers_do_not_depend_on_the_slots(n_slots: int) -> None:
    prompts = prompts_of(1, 7)
    answers = generate(TinySession(n_slots=n_slots), [Prompt(p, 9) for p in prompts], eos_ids=[EOS])
    assert [answer.tokens for answer in answers] == [one_by_one(p, 9) for p in prompts]
    assert all(answer.finite for answer in answers)


def test_an_end_token_ends_the_answer_and_belongs_to_it() -> None:
    prompts = [Prompt(p, 40) for p in prompts_of(2, 12, longest=8)]
    free = generate(TinySession(), prompts, eos_ids=[])
    end = free[0].tokens[3]
    ended = generate(TinySession(), prompts, eos_ids=[end, 999])
    for one, other in zip(free, ended, strict=True):
        stop = one.tokens.index(end) + 1 if end in one.tokens else len(one.tokens)
        assert other.tokens == one.tokens[:stop]
    assert ended[0].tokens[-1] == end


def test_an_end_token_inside_a_prompt_ends_nothing() -> None:
    # A chat template's end of turn is often both the end token and the padding.
    prompt = (5, EOS, 7, EOS, EOS)
    answer = generate(TinySession(), [Prompt(prompt, 6)], eos_ids=[EOS])[0]
    assert answer.tokens == one_by_one(prompt, 6)


def test_every_decode_step_has_one_shape_and_no_padding() -> None:
    session = TinySession(n_slots=3)
    prompts = [Prompt(p, 3 + 4 * i) for i, p in enumerate(prompts_of(3, 3))]
    generate(session, prompts, eos_ids=[])
    reads = [step for step in session.steps if step.rows == 1]
    assert [token for step in reads for token in step.tokens[0]] == [t for p in prompts for t in p.tokens]
    decodes = [step for step in session.steps if step.rows > 1]
    assert {(step.rows, step.new_tokens) for step in decodes} == {(3, 1)}
    assert len(decodes) == 3 + 4 * 2 - 1
    # Positions are counted from each prompt's own end, whatever the neighbours' lengths.
    assert decodes[0].past == tuple(len(p.tokens) for p in prompts)


def test_one_token_needs_no_decoding() -> None:
    session = TinySession()
    answers = generate(session, [Prompt(p, 1) for p in prompts_of(4, 3)], eos_ids=[])
    assert [len(answer.tokens) for answer in answers] == [1, 1, 1]
    assert all(step.rows == 1 for step in session.steps)


def test_a_prompt_that_fills_the_context_to_the_last_token() -> None:
    prompt = prompts_of(5, 1, shortest=60, longest=60)[0]
    assert len(generate(TinySession(max_context=64), [Prompt(prompt, 4)], eos_ids=[])[0].tokens) == 4


def test_an_answer_breaks_off_where_logits_are_not_finite() -> None:
    def spoil(logits: Array, batch: Batch) -> None:
        if batch.rows > 1 and batch.past[1] == 9:
            logits[1, 0, 0] = np.nan

    session = TinySession(spoil=spoil, n_slots=2)
    answers = generate(session, [Prompt(tuple(range(3, 10)), 6)] * 2, eos_ids=[])
    assert answers[0] == Answer(one_by_one(tuple(range(3, 10)), 6))
    assert not answers[1].finite
    assert answers[1].tokens == answers[0].tokens[:3]


def test_a_prompt_with_nan_logits_is_marked() -> None:
    def spoil(logits: Array, batch: Batch) -> None:
        logits[:] = np.inf

    assert not generate(TinySession(spoil=spoil), [Prompt((3, 4), 5)], eos_ids=[])[0].finite


def test_progress_counts_cases() -> None:
    seen: list[tuple[int, int]] = []
    prompts = [Prompt(p, 2) for p in prompts_of(6, 7)]
    generate(TinySession(n_slots=3), prompts, eos_ids=[], progress=lambda done, of: seen.append((done, of)))
    assert seen == [(3, 7), (6, 7), (7, 7)]


def test_the_null_engine_tells_slots_apart() -> None:
    prompts = [Prompt(p, 6) for p in prompts_of(7, 5)]
    options = NullOptions(vocab_size=97)
    together = generate(NullSession(4, 64, options), prompts, eos_ids=[])
    alone = [generate(NullSession(1, 64, options), [prompt], eos_ids=[])[0] for prompt in prompts]
    assert together == alone


def test_a_failing_step_is_raised() -> None:
    session = NullSession(2, 64, NullOptions(fail_steps=frozenset({2})))
    with pytest.raises(EngineError, match="fails as told"):
        generate(session, [Prompt((1, 2), 4)] * 2, eos_ids=[])


def test_waves() -> None:
    assert list(waves([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(waves([], 2)) == []
