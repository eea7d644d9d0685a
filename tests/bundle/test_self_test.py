from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from chipwise.bundle import LogitSample, SelfTest, record_self_test, run_self_test
from chipwise.errors import BundleError
from tests.bundle.fakes import VOCAB, FakeSession, a_self_test

Spoil = Callable[[npt.NDArray[np.float32]], None]


def zeros(logits: npt.NDArray[np.float32]) -> None:
    logits[:] = 0


def nan(logits: npt.NDArray[np.float32]) -> None:
    logits[0, 7] = np.nan


def infinite(logits: npt.NDArray[np.float32]) -> None:
    logits[0, 7] = -np.inf


def equal(logits: npt.NDArray[np.float32]) -> None:
    logits[:] = 2.5


def shift(by: float) -> Spoil:
    def spoil(logits: npt.NDArray[np.float32]) -> None:
        logits += by

    return spoil


def test_the_same_runtime_passes() -> None:
    session, test = FakeSession(), a_self_test()
    run_self_test(session, test, where="b")
    assert session.held(0) == [*test.prompt, *test.tokens[:-1]]


def test_it_records_the_greedy_tokens_and_their_logits() -> None:
    test = a_self_test()
    logits = np.random.default_rng([3, 1, 4, 1, 5, 9]).normal(size=VOCAB)
    assert test.tokens[0] == logits.argmax()
    first = [sample for sample in test.logits if sample.step == 0]
    assert {sample.step for sample in test.logits} == {0, len(test.tokens) - 1}
    assert [sample.value for sample in first] == pytest.approx(sorted(logits)[-8:])


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_a_runtime_that_takes_other_chunks_passes(chunk: int) -> None:
    session, test = FakeSession(max_step_tokens=chunk), a_self_test()
    run_self_test(session, test, where="b")
    assert session.held(0) == [*test.prompt, *test.tokens[:-1]]


def test_what_another_conversation_left_in_the_slot_does_not_matter() -> None:
    session = FakeSession()
    record_self_test(session, [9, 9, 9, 9, 9, 9, 9, 9, 9])
    assert session.held(0)[:9] == [9] * 9
    test = a_self_test()
    run_self_test(session, test, where="b")
    assert session.held(0) == [*test.prompt, *test.tokens[:-1]]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (zeros, "the runtime returned all zeros"),
        (equal, "the same logit 2.5 for every token"),
        (nan, "1 of 50 logits are NaN or infinite"),
        (infinite, "1 of 50 logits are NaN or infinite"),
        (shift(0.6), "the logit of token .* instead of .*tolerance 0.5"),
        (shift(-0.6), "the logit of token .* instead of .*tolerance 0.5"),
    ],
)
def test_a_broken_runtime_is_named(spoil: Spoil, text: str) -> None:
    with pytest.raises(BundleError, match=f"^b: the self-test failed at step 0: .*{text}.*update it") as caught:
        run_self_test(FakeSession(spoil=spoil), a_self_test(), where="b")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("spoil", [zeros, equal, nan])
def test_a_broken_runtime_records_nothing(spoil: Spoil) -> None:
    with pytest.raises(BundleError):
        record_self_test(FakeSession(spoil=spoil), [1, 2])


def test_a_difference_within_the_tolerance_passes() -> None:
    run_self_test(FakeSession(spoil=shift(0.4)), a_self_test(), where="b")


def test_a_fault_in_decode_alone_is_found() -> None:
    calls = []

    def spoil(logits: npt.NDArray[np.float32]) -> None:
        calls.append(1)
        if len(calls) == 4:  # 6 prompt tokens in chunks of 4, then the second decode step
            zeros(logits)

    with pytest.raises(BundleError, match="failed at step 2: the runtime returned all zeros"):
        run_self_test(FakeSession(spoil=spoil), a_self_test(), where="b")


def test_another_token_is_an_error_only_beyond_the_tolerance() -> None:
    test = replace(a_self_test(), logits=())
    first = np.random.default_rng(list(test.prompt)).normal(size=VOCAB).astype(np.float32)
    runner_up = int(np.argsort(first)[-2])
    gap = float(first.max() - first[runner_up])
    one = replace(test, tokens=(runner_up,))
    run_self_test(FakeSession(), replace(one, tolerance=gap * 1.01), where="b")
    with pytest.raises(BundleError, match=f"chose token {first.argmax()} instead of {runner_up}"):
        run_self_test(FakeSession(), replace(one, tolerance=gap * 0.99), where="b")


def test_another_vocabulary_is_an_error_not_a_crash() -> None:
    with pytest.raises(BundleError, match="expects token 50, but the model has only 50"):
        run_self_test(FakeSession(), SelfTest((1,), (VOCAB,), (), 0.5), where="b")
    tokens = a_self_test().tokens
    beyond = SelfTest(a_self_test().prompt, tokens, (LogitSample(0, VOCAB, 1.0),), 0.5)
    with pytest.raises(BundleError, match="logit of token 50 is nan"):
        run_self_test(FakeSession(), beyond, where="b")
