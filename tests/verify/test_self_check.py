from __future__ import annotations

import math

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.report.quality import SelfCheck
from chipwise.verify.generate import Prompt, feed, generate
from chipwise.verify.self_check import POSITIONS, self_check
from chipwise.verify.thresholds import Thresholds
from tests.verify.fakes import EOS, Array, Fault, TinySession, prompts_of

CANDIDATE_LIMIT_NATS = Thresholds().self_check_candidate_nats


def check(session: TinySession, count: int = 3, max_tokens: int = 9) -> SelfCheck:
    prompts = [Prompt(p, max_tokens + i) for i, p in enumerate(prompts_of(1, count))]
    answers = [answer.tokens for answer in generate(TinySession(), prompts, eos_ids=[EOS])]
    return self_check(read(session, prompts), "reference", prompts, answers, chunk_tokens=4)


def read(session: TinySession, prompts: list[Prompt]) -> TinySession:
    """The session with the prompts in its slots."""
    for slot, prompt in enumerate(prompts):
        for _ in feed(session, slot, prompt.tokens, chunk_tokens=4, logits="all"):
            pass
    return session


def test_a_sound_session_reads_zero() -> None:
    found = check(TinySession())
    assert found.kl_max_nats < 1e-5
    assert found.top1_agreement == 1
    assert found.session == "reference"
    assert found.positions > 3


# Positions off by one, a slot's stale end, the neighbour's slot, a mask that also hides the own token.
@pytest.mark.parametrize("fault", ["shift", "unmasked", "crosstalk", "mask_twice"])
def test_a_session_whose_decode_disagrees_with_its_prefill_is_caught(fault: Fault) -> None:
    assert check(TinySession(fault=fault)).kl_mean_nats > 2 * CANDIDATE_LIMIT_NATS


def test_a_nan_in_one_shape_is_caught() -> None:
    def spoil(logits: Array, batch: Batch) -> None:
        if batch.rows == 3:
            logits[2, 0, 1] = np.nan

    found = check(TinySession(spoil=spoil))
    assert math.isnan(found.kl_mean_nats)
    assert math.isnan(found.kl_max_nats)
    assert found.top1_agreement < 1


def test_a_prompt_longer_than_a_chunk_and_an_answer_longer_than_what_is_checked() -> None:
    prompt = Prompt(tuple(range(3, 20)), POSITIONS + 10)
    session = TinySession(n_slots=2)
    answer = generate(session, [prompt], eos_ids=[])[0].tokens
    found = self_check(read(session, [prompt]), "candidate", [prompt], [answer], chunk_tokens=5)
    # The prompt's last token, twice, and the answer's.
    assert found.positions == 1 + 1 + POSITIONS
    assert found.kl_max_nats < 1e-5


def test_answers_of_one_token() -> None:
    prompts = [Prompt(p, 1) for p in prompts_of(2, 3)]
    session = read(TinySession(), prompts)
    for answers, positions in ([(5,), (6,), (7,)], 6), ([(5,), (6, 8), (7,)], 7):
        found = self_check(session, "reference", prompts, answers, chunk_tokens=5)
        assert found.positions == positions
        assert found.kl_max_nats < 1e-5


@pytest.mark.parametrize("fault", ["right_padding", "left_padding", "left_padding_positions"])
def test_padding_while_reading_is_caught(fault: Fault) -> None:
    assert check(TinySession(fault=fault)).kl_mean_nats > CANDIDATE_LIMIT_NATS
