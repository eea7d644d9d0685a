"""Slots as sequences of llama.cpp: what they hold, what is taken back, and what happens when it fails."""

from __future__ import annotations

import random

import numpy as np
import pytest

from chipwise.engine.batch import Batch
from chipwise.engine.llamacpp.session import LlamaCppSession
from chipwise.engine.null import NullOptions, NullSession
from chipwise.engine.session import ChecksDrafts, SavesSlots
from chipwise.errors import EngineError
from tests.engine.llamacpp.conftest import OpenFake


def batch(slot: int, *rows: list[int], past: list[int] | int = 0, every: bool = False, used=None) -> Batch:
    tokens = np.array(rows, np.int64)
    pasts = np.broadcast_to(np.array(past, np.int64), len(rows)).copy()
    return Batch(slot, tokens, pasts, "all" if every else "last", None if used is None else np.array(used, np.int64))


def wanted(tokens: list[int]) -> np.ndarray:
    """The logits after each of these tokens of a fresh sequence, ``[n, vocab]``."""
    session = NullSession(1, 1024, NullOptions(max_step_tokens=1024))
    return session.step(batch(0, tokens, every=True)).logits[0]


def context(session: LlamaCppSession, fake):
    return fake.context_of(session._opened.context)


def test_sizes_are_known_when_it_is_open(open_fake: OpenFake) -> None:
    session = open_fake(n_slots=3, max_context=100, vocab=50)
    assert (session.n_slots, session.max_context, session.vocab_size, session.max_step_tokens) == (3, 100, 50, 100)
    assert isinstance(session, SavesSlots)
    assert isinstance(session, ChecksDrafts)
    assert (session.max_draft_tokens, session.max_draft_rows) == (99, 3)


def test_rows_are_sequences_and_run_in_one_call(open_fake: OpenFake, fake) -> None:
    session = open_fake()
    for slot in range(3):
        session.step(batch(slot, [slot, 7, 9]))
    logits = session.step(batch(0, [5], [6], [7], past=3)).logits
    for slot in range(3):
        assert np.array_equal(logits[slot], wanted([slot, 7, 9, 5 + slot])[-1])
    assert context(session, fake).batches[-1] == [(0, 3), (1, 3), (2, 3)]


def test_logits_after_every_token(open_fake: OpenFake) -> None:
    session = open_fake()
    logits = session.step(batch(1, [1, 2, 3], [4, 5, 6], every=True)).logits
    assert logits.shape == (2, 3, 256)
    assert np.array_equal(logits[0], wanted([1, 2, 3]))
    assert np.array_equal(logits[1], wanted([4, 5, 6]))


def test_padding_is_not_fed(open_fake: OpenFake, fake) -> None:
    session = open_fake()
    logits = session.step(batch(0, [1, 2, 3], [4, 0, 0], every=True, used=[3, 1])).logits
    assert np.array_equal(logits[0], wanted([1, 2, 3]))
    assert np.array_equal(logits[1, :1], wanted([4]))
    assert context(session, fake).batches == [[(0, 0), (0, 1), (0, 2), (1, 0)]]


def test_what_was_guessed_wrong_is_taken_back(open_fake: OpenFake) -> None:
    session = open_fake()
    session.step(batch(0, [1, 2]))
    session.step(batch(0, [3, 99, 98], past=2, every=True, used=[3]))
    logits = session.step(batch(0, [4], past=3)).logits
    assert np.array_equal(logits[0], wanted([1, 2, 3, 4])[-1])


def test_a_prompt_that_begins_as_the_last_one_did_feeds_the_rest(open_fake: OpenFake, fake) -> None:
    session = open_fake()
    session.step(batch(0, [*range(40)]))
    logits = session.step(batch(0, [100, 101], past=30)).logits
    assert np.array_equal(logits[0], wanted([*range(30), 100, 101])[-1])
    assert len(context(session, fake).batches[-1]) == 2


def test_a_step_beyond_one_call_runs_in_pieces(open_fake: OpenFake, fake) -> None:
    session = open_fake(max_context=16)
    rows = [[slot * 10 + i for i in range(9)] for slot in range(4)]
    last = session.step(batch(0, *rows)).logits.copy()
    assert [len(one) for one in context(session, fake).batches] == [9] * 4
    every = session.step(batch(0, *rows, every=True)).logits
    for row, tokens in enumerate(rows):
        assert np.array_equal(last[row], wanted(tokens)[-1])
        assert np.array_equal(every[row], wanted(tokens))


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("tokens", [0, 1, 5, 8])
def test_a_copied_slot_goes_on_by_itself(open_fake: OpenFake, tokens: int, window: int) -> None:
    session = open_fake(window=window)
    held = [*range(10, 18)]
    session.step(batch(0, held))
    session.step(batch(3, [200, 201]))
    session.move_slot(0, 3, tokens)
    there = session.step(batch(3, [77], past=tokens)).logits.copy()
    assert np.array_equal(there[0], wanted([*held[:tokens], 77])[-1])
    assert np.array_equal(session.step(batch(0, [78], past=8)).logits[0], wanted([*held, 78])[-1])


def test_a_copy_of_what_is_not_there_is_refused(open_fake: OpenFake) -> None:
    session = open_fake()
    session.step(batch(0, [1, 2]))
    with pytest.raises(EngineError, match="slot 0 holds 2 tokens, not 3"):
        session.move_slot(0, 1, 3)
    with pytest.raises(EngineError, match="slot 4 of 4"):
        session.move_slot(0, 4, 1)


def test_a_saved_slot_comes_back_in_another_session(open_fake: OpenFake) -> None:
    first, second = open_fake(), open_fake(n_slots=2)
    first.step(batch(1, [3, 4, 5]))
    kv = first.save_slot(1, 3)
    assert kv.dtype == np.float32
    second.load_slot(0, kv)
    assert np.array_equal(second.step(batch(0, [6], past=3)).logits[0], wanted([3, 4, 5, 6])[-1])


def test_a_state_of_something_else_is_refused_in_one_line(open_fake: OpenFake) -> None:
    session = open_fake()
    with pytest.raises(EngineError, match=r"cannot take the KV of slot 0 \(error loading state: wrong sequence"):
        session.load_slot(0, np.ones(8, np.float32))
    # The slot is empty and works.
    assert np.array_equal(session.step(batch(0, [6])).logits[0], wanted([6])[-1])


def test_zeros_overwrite_what_a_slot_holds(open_fake: OpenFake, fake) -> None:
    session = open_fake()
    session.step(batch(2, [9, 8, 7]))
    session.load_slot(2, np.zeros_like(session.save_slot(2, 3)))
    assert context(session, fake).sequences.held(2) == [0, 0, 0]


def test_a_slot_of_a_model_with_a_window_is_not_saved_and_scrubbed_at_once(open_fake: OpenFake, fake) -> None:
    session = open_fake(window=4, nan=9)
    assert not isinstance(session, SavesSlots)
    session.step(batch(0, [1, 2, 3]))
    logits = session.step(batch(0, [4], [9], past=[3, 0])).logits
    assert np.array_equal(logits[0], wanted([1, 2, 3, 4])[-1])
    assert np.isnan(logits[1]).all()
    held = context(session, fake).sequences.held
    assert (held(0), held(1)) == ([1, 2, 3, 4], [0])


@pytest.mark.parametrize(
    ("result", "words"),
    [(1, "no room in its KV cache"), (2, "was aborted"), (-1, "refuses the batch"), (-2, "failed with -2")],
)
def test_what_llama_decode_returns_is_said_and_the_slots_are_empty(
    open_fake: OpenFake, fake, result: int, words: str
) -> None:
    session = open_fake(results={"1": result})
    session.step(batch(0, [1, 2]))
    with pytest.raises(EngineError, match=rf"{words}.*\(the step failed as told\)"):
        session.step(batch(0, [3, 4], [5, 6], past=[2, 0]))
    held = context(session, fake).sequences.held
    assert (held(0), held(1)) == ([], [])
    # Others are sound, and so are these once they are fed anew.
    assert np.array_equal(session.step(batch(0, [1, 2, 3])).logits[0], wanted([1, 2, 3])[-1])


def test_a_cache_that_is_smaller_than_asked_for_is_an_error_not_a_crash(open_fake: OpenFake) -> None:
    session = open_fake(cells=8)
    with pytest.raises(EngineError, match=r"no room in its KV cache \(failed to find a memory slot"):
        session.step(batch(0, [*range(9)]))


def test_a_memory_that_cannot_be_cut_is_an_error(open_fake: OpenFake) -> None:
    session = open_fake(recurrent=True)
    session.step(batch(0, [1, 2, 3]))
    with pytest.raises(EngineError, match="cannot take back what slot 0 holds behind 2 tokens"):
        session.step(batch(0, [4], past=2))
    session.step(batch(0, [4], past=0))


def test_bad_batches_never_reach_the_library(open_fake: OpenFake, fake) -> None:
    session = open_fake(vocab=50)
    for bad, words in (
        (batch(0, [50]), "vocabulary"),
        (batch(4, [1]), "slots 4..4 of 4"),
        (batch(0, [1], past=256), "a slot holds 256"),
        (batch(0, [1], past=1), "slot 0 holds 0 tokens, the batch says 1"),
    ):
        with pytest.raises(EngineError, match=words):
            session.step(bad)
    assert context(session, fake).calls == 0


def test_closed_is_closed(open_fake: OpenFake, fake) -> None:
    session = open_fake()
    session.close()
    session.close()
    assert fake.alive() == 0
    with pytest.raises(EngineError, match="closed"):
        session.step(batch(0, [1]))
    with pytest.raises(EngineError, match="closed"):
        session.move_slot(0, 1, 0)


@pytest.mark.parametrize("window", [0, 4])
def test_any_run_of_steps_and_copies_is_what_the_null_engine_computes(open_fake: OpenFake, window: int) -> None:
    chance = random.Random(3)
    ours, theirs = open_fake(window=window), NullSession(4, 256, NullOptions())
    for _ in range(300):
        slot, kind = chance.randrange(4), chance.random()
        held = len(theirs.held(slot))
        if kind < 0.2:
            target, tokens = chance.randrange(4), chance.randint(0, held)
            if target == slot:
                continue
            ours.move_slot(slot, target, tokens)
            theirs.move_slot(slot, target, tokens)
            continue
        rows = chance.randint(1, 4 - slot)
        past = [chance.randint(0, min(200, len(theirs.held(slot + row)))) for row in range(rows)]
        tokens = [[chance.randrange(256) for _ in range(chance.choice([1, 1, 5]))]] * rows
        one = batch(slot, *tokens, past=past, every=chance.random() < 0.3)
        assert np.array_equal(ours.step(one).logits, theirs.step(one).logits)
