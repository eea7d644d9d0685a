"""What fused and portable sessions have in common: the contract of ``Session``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipwise.engine import Batch, Session
from chipwise.engine.onnxruntime import OnnxRuntimeEngine
from chipwise.engine.onnxruntime import fused as fused_module
from chipwise.engine.session import draft_limits
from chipwise.errors import EngineError
from tests.model.decoder.random_models import VOCAB, tokens
from tests.model.decoder.sessions import (
    CONTEXT,
    TOLERANCE,
    check_session,
    decode_side_by_side,
    distance,
    feed,
    golden,
)


def _one(token: int, past: int, slot: int = 0) -> Batch:
    return Batch(slot, np.array([[token]]), np.array([past]))


def test_properties(session: Session) -> None:
    assert (session.n_slots, session.max_context, session.vocab_size) == (3, CONTEXT, VOCAB)
    assert 32 <= session.max_step_tokens <= CONTEXT


def test_logits_of_last_and_of_all_agree(session: Session) -> None:
    sequence = np.array([tokens()[:20]])
    every = session.step(Batch(0, sequence, np.array([0]), "all")).logits.copy()
    last = session.step(Batch(1, sequence, np.array([0]))).logits
    assert every.shape == (1, 20, VOCAB)
    assert last.shape == (1, VOCAB)
    assert distance(last, every[:, -1]) < 1e-5


def test_chunks_of_several_rows(session: Session) -> None:
    wanted, sequence = golden("gemma3"), np.array(tokens())
    both = np.stack([sequence[:9], sequence[:9]])
    logits = session.step(Batch(0, both, np.array([0, 0]), "all")).logits
    assert distance(logits[1], wanted[:9]) < TOLERANCE
    more = np.stack([sequence[9:15], sequence[4:10]])
    logits = session.step(Batch(0, more, np.array([9, 4]))).logits
    assert distance(logits, wanted[[14, 9]]) < TOLERANCE


def test_drafts_are_checked_as_if_fed_one_by_one(session: Session, request: pytest.FixtureRequest) -> None:
    """Rows of different lengths, padded; wrong tokens that lie behind a row's past are overwritten."""
    tokens_a_row, rows = draft_limits(session)
    if request.node.callspec.params["session"] != "fused":
        assert tokens_a_row == 0
        return
    assert tokens_a_row == 16
    wanted, sequence = golden("gemma3"), tokens()
    pasts, used = np.array([9, 14][:rows]), np.array([4, 2][:rows])
    for slot, past in enumerate(pasts):
        feed(session, sequence, [int(past)], slot)
    drafts = np.zeros((rows, 4), int)[: len(pasts)]
    for row, (past, count) in enumerate(zip(pasts, used, strict=True)):
        drafts[row, :count] = sequence[past : past + count]
    for wrong in (True, False):
        fed = drafts.copy()
        fed[0, 2] = 3 if wrong else fed[0, 2]
        logits = session.step(Batch(0, fed, pasts, "all", used)).logits
        assert logits.shape == (len(pasts), 4, VOCAB)
        for row, (past, count) in enumerate(zip(pasts, used, strict=True)):
            right = 2 if wrong and row == 0 else count
            assert distance(logits[row, :right], wanted[past : past + right]) < TOLERANCE
    assert distance(session.step(_one(sequence[13], 13)).logits, wanted[13:14]) < TOLERANCE


def test_rows_that_start_beside_rows_that_go_on(session: Session) -> None:
    sequence = tokens()
    feed(session, sequence, [11], slot=1)
    logits = session.step(Batch(0, np.array([[sequence[0]], [sequence[11]]]), np.array([0, 11]))).logits
    assert distance(logits, golden("gemma3")[[0, 11]]) < TOLERANCE


def test_a_slot_may_be_taken_back_to_an_earlier_token(session: Session) -> None:
    sequence, wanted = tokens(), golden("gemma3")
    feed(session, sequence, [30])
    assert distance(feed(session, sequence, [5]), wanted[:5]) < TOLERANCE
    session.step(_one(sequence[5] - 1, 5))
    logits = session.step(_one(sequence[5], 5)).logits
    assert distance(logits[0], wanted[5]) < TOLERANCE


def test_moved_slots_go_on_as_if_they_had_not_moved(session: Session) -> None:
    sequence = tokens()
    decode_side_by_side(session, (5, 20, 33), 1)
    session.move_slot(1, 0, 21)
    logits = session.step(_one(sequence[21], 21, slot=0)).logits
    assert distance(logits[0], golden("gemma3")[21]) < TOLERANCE
    logits = session.step(_one(sequence[34], 34, slot=2)).logits
    assert distance(logits[0], golden("gemma3")[34]) < TOLERANCE


def test_the_last_place_of_a_slot(session: Session) -> None:
    sequence = (tokens() * 2)[:CONTEXT]
    feed(session, sequence[:-1], [20, 20, CONTEXT - 41], slot=1)
    assert np.isfinite(session.step(_one(sequence[-1], CONTEXT - 1, slot=1)).logits).all()
    with pytest.raises(EngineError, match=f"a slot holds {CONTEXT}"):
        session.step(_one(5, CONTEXT, slot=1))


@pytest.mark.parametrize(
    "batch",
    [
        _one(VOCAB, 0),
        _one(-1, 0),
        _one(5, -1),
        _one(5, 0, slot=3),
        Batch(0, np.array([[1, 2]]), np.array([0, 0])),
        Batch(0, np.array([[0.5]]), np.array([0])),
        Batch(0, np.zeros((1, CONTEXT + 1), np.int64), np.array([0])),
    ],
)
def test_bad_batches_are_refused_and_leave_the_session_alive(session: Session, batch: Batch) -> None:
    wanted = golden("gemma3")
    feed(session, tokens(), [10])
    with pytest.raises(EngineError) as e:
        session.step(batch)
    assert "\n" not in str(e.value)
    assert distance(session.step(_one(tokens()[10], 10)).logits[0], wanted[10]) < TOLERANCE


def test_closed_sessions_refuse_and_close_again(session: Session) -> None:
    session.close()
    session.close()
    for call in (lambda: session.step(_one(1, 0)), lambda: session.move_slot(0, 1, 1)):
        with pytest.raises(EngineError, match="closed"):
            call()


def _open(graph_files: dict[str, dict[str, Path]], **options: int) -> Session:
    return OnnxRuntimeEngine().open(graph_files["fused"], n_slots=3, max_context=CONTEXT, options=options)


@pytest.fixture(scope="module")
def two_threads(graph_files: dict[str, dict[str, Path]]) -> Iterator[Session]:
    with closing(_open(graph_files, threads=2)) as opened:
        yield opened


@pytest.fixture(scope="module")
def fused(graph_files: dict[str, dict[str, Path]]) -> Iterator[Session]:
    opened = OnnxRuntimeEngine().open(graph_files["fused"], n_slots=3, max_context=CONTEXT, options={"threads": 1})
    yield opened
    opened.close()


@settings(max_examples=25, deadline=None)
@given(chunks=st.lists(st.integers(1, 15), min_size=1, max_size=8), slot=st.integers(0, 2))
def test_how_a_sequence_is_cut_does_not_matter(fused: Session, chunks: list[int], slot: int) -> None:
    length = min(sum(chunks), len(tokens()))
    while sum(chunks) > length:
        chunks[-1] = max(0, chunks[-1] - (sum(chunks) - length))
        if not chunks[-1]:
            chunks.pop()
    assert distance(feed(fused, tokens(), chunks, slot), golden("gemma3")[: sum(chunks)]) < TOLERANCE


@given(
    past=st.integers(1, CONTEXT - 18),
    count=st.integers(2, 17),
    slot=st.integers(0, 2),
    every=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_drafts_have_the_bits_of_one_token_a_step(
    two_threads: Session, past: int, count: int, slot: int, every: bool, seed: int
) -> None:
    """Logits and KV. Whatever the slots hold behind what is theirs has no say."""
    sequence = np.random.default_rng(seed).integers(0, VOCAB, past + count)
    feed(two_threads, sequence, [past], slot)
    one_by_one = np.stack(
        [two_threads.step(_one(sequence[i], i, slot)).logits[0].copy() for i in range(past, len(sequence))]
    )
    kept = two_threads.save_slot(slot, past + count)
    two_threads.load_slot(slot, np.full_like(kept, 9))
    two_threads.load_slot(slot, kept[:, :, :, :past].copy())
    used = np.array([count])
    batch = Batch(slot, sequence[None, past:], np.array([past]), "all" if every else "last", used)
    logits = two_threads.step(batch).logits
    assert np.array_equal(logits, one_by_one[None] if every else one_by_one[-1:])
    assert np.array_equal(two_threads.save_slot(slot, past + count), kept)


def test_an_old_runtime_or_one_that_reads_as_it_writes_checks_no_drafts(
    graph_files: dict[str, dict[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def limits(**options: int) -> tuple[int, int]:
        with closing(_open(graph_files, **options)) as session:
            return draft_limits(session)

    assert limits(threads=1) == (16, 1)
    # Four heads: with more threads than heads a lone row's context is split.
    assert limits(threads=5)[0] == 0
    monkeypatch.setenv("ORT_GQA_DISABLE_FLASH_ATTENTION", "1")
    assert limits(threads=1)[0] == 0
    monkeypatch.delenv("ORT_GQA_DISABLE_FLASH_ATTENTION")
    monkeypatch.setattr(fused_module.ort, "__version__", "1.27.0")
    assert limits(threads=1)[0] == 0


def test_two_thousand_steps_take_no_more_memory_than_a_few(fused: Session) -> None:
    process, sequence = psutil.Process(), tokens()

    def steps(count: int) -> int:
        for step in range(count):
            past = 20 + step % 20
            fused.step(Batch(0, np.full((3, 1), sequence[past]), np.array([past, past - 9, past - 20])))
            if step % 50 == 0:
                feed(fused, sequence, [17], slot=1)
        return process.memory_info().rss

    decode_side_by_side(fused, (20, 11, 1), 1)
    before = steps(200)
    assert steps(2000) - before < 1 << 20
    check_session(fused, golden("gemma3"))


def test_only_the_first_draft_over_new_places_takes_time_that_does_not_come_again(two_threads: Session) -> None:
    """That time is none of what a draft costs: who learned it from the first one would never guess again."""

    def once_s(slot: int, past: int) -> float:
        batch = Batch(slot, np.full((1, 4), 3), np.array([past]), "all", np.array([4]))
        return two_threads.step(batch).once_s

    feed(two_threads, tokens(), [20], slot=1)
    feed(two_threads, tokens(), [20], slot=2)
    once_s(2, 5)
    assert once_s(1, 5) > 0
    assert [once_s(1, past) for past in (5, 6, 2, 20)] == [0, 0, 0, 0]
    assert two_threads.step(_one(3, 20, 1)).once_s == 0
    assert once_s(2, 20) > 0
