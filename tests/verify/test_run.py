from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipwise.engine import Batch
from chipwise.errors import QueryFileError
from chipwise.model.queries import Query
from chipwise.report.quality import Quality
from chipwise.verify.case import Case
from chipwise.verify.gate import judge
from chipwise.verify.generate import generate
from chipwise.verify.run import context_needed, encode_suite, verify
from chipwise.verify.scoring.requirement import Requirement
from chipwise.verify.suite import Suite
from chipwise.verify.thresholds import Thresholds
from tests.verify.fakes import EOS, Array, TinySession, prompts_of
from tests.verify.words import word_tokenizer

TOKENIZER = word_tokenizer()


def suite(count: int = 12) -> Suite:
    """Cases whose keyword is a word of the sound model's answer."""
    texts = [" ".join(f"w{token}" for token in prompt) for prompt in prompts_of(9, count)]
    bare = Suite("s", tuple(Case(str(i), Query(prompt=text), max_tokens=8) for i, text in enumerate(texts)), "")
    answers = generate(TinySession(), encode_suite(bare, TOKENIZER, None), eos_ids=[EOS])
    return Suite(
        "s",
        tuple(
            Case(
                c.id,
                c.query,
                requirement=Requirement((f"w{a.tokens[-2]}",)) if len(a.tokens) > 1 else None,
                dimension="keyword" if len(a.tokens) > 1 else None,
                max_tokens=8,
            )
            for c, a in zip(bare.cases, answers, strict=True)
        ),
        "",
    )


def judged(candidate: TinySession, reference: TinySession | None = None) -> tuple[Quality, list[str]]:
    cases = suite()
    prompts = encode_suite(cases, TOKENIZER, None)
    quality = verify(cases.cases, prompts, TOKENIZER, candidate=candidate, reference=reference)
    return quality, [verdict.metric for verdict in judge(quality, Thresholds()) if not verdict.passed]


def test_a_sound_candidate_passes() -> None:
    quality, failed = judged(TinySession(), TinySession())
    assert failed == []
    assert quality.fidelity[0].candidate == 1
    assert quality.answers_changed == 0


def test_a_little_noise_passes() -> None:
    quality, failed = judged(TinySession(noise=0.003), TinySession())
    assert failed == []
    assert quality.answer is not None
    assert quality.answer.kl_mean_nats > 0


def test_planted_damage_fails() -> None:
    quality, failed = judged(TinySession(noise=0.5), TinySession())
    assert {"kl_mean_nats", "top1_agreement", "keyword_fidelity_drop"} <= set(failed)
    assert quality.fidelity[0].broke > 0
    assert quality.worst(1)[0].broke


def test_another_model_fails() -> None:
    assert {"kl_mean_nats", "top1_agreement", "perplexity_ratio"} <= set(judged(TinySession(seed=5), TinySession())[1])


def test_a_candidate_that_decodes_at_shifted_positions_fails() -> None:
    # Read at once the text is right; drift is taken token by token, as users get it.
    _, failed = judged(TinySession(fault="shift"), TinySession())
    assert {"self_check_candidate_nats", "kl_mean_nats"} <= set(failed)


def test_a_reference_that_disagrees_with_itself_fails() -> None:
    assert "self_check_reference_nats" in judged(TinySession(), TinySession(fault="crosstalk"))[1]


@pytest.mark.parametrize("reference", [True, False])
def test_nan_fails(reference: bool) -> None:
    def spoil(logits: Array, batch: Batch) -> None:
        logits[:, -1, 0] = np.where(batch.tokens[:, -1] == 17, np.nan, logits[:, -1, 0])

    assert "cases_nonfinite" in judged(TinySession(spoil=spoil), TinySession() if reference else None)[1]


def test_the_candidate_alone_is_judged_by_its_keywords() -> None:
    assert judged(TinySession())[1] == []
    assert "keyword_fidelity" in judged(TinySession(noise=0.6))[1]


@pytest.mark.parametrize("reference", [True, False])
def test_cases_that_do_not_fit_are_named_and_fail(reference: bool) -> None:
    small = TinySession(max_context=18)
    quality, failed = judged(small, TinySession() if reference else None)
    assert "cases_not_run" in failed
    ran = [case.id for case in quality.cases]
    assert sorted([*ran, *quality.not_run], key=int) == [case.id for case in suite().cases]
    assert 0 < len(ran) < 12


def test_context_needed() -> None:
    prompts = encode_suite(suite(), TOKENIZER, None)
    assert context_needed(prompts) == max(len(prompt.tokens) for prompt in prompts) + 8
    assert context_needed([]) == 1


def test_prompts_that_differ_are_answered_apart_and_fail_the_gate() -> None:
    cases = suite()
    asked = encode_suite(cases, TOKENIZER, None)
    # The candidate's template leaves the first word out.
    prompts = [replace(prompt, tokens=prompt.tokens[1:]) for prompt in asked]
    quality = verify(
        cases.cases, prompts, TOKENIZER, candidate=TinySession(), reference=TinySession(), reference_prompts=asked
    )
    alone = verify(cases.cases, prompts, TOKENIZER, candidate=TinySession())
    assert quality.prompts_differ == len(asked)
    assert quality.answer is None
    assert [case.candidate_answer for case in quality.cases] == [case.candidate_answer for case in alone.cases]
    assert all(case.missing_reference in ((), None) for case in quality.cases)
    failed = {verdict.metric for verdict in judge(quality, Thresholds()) if verdict.outcome == "fail"}
    assert "prompts_differ" in failed
    assert "prompts_differ" not in {verdict.metric for verdict in judge(alone, Thresholds())}


def test_prompts_that_are_the_same_are_compared_token_by_token() -> None:
    cases = suite()
    prompts = encode_suite(cases, TOKENIZER, None)
    quality = verify(
        cases.cases, prompts, TOKENIZER, candidate=TinySession(), reference=TinySession(), reference_prompts=prompts
    )
    assert quality.prompts_differ == 0
    assert quality.answer is not None


def test_no_case_fits_both_templates() -> None:
    cases = suite(2)
    asked = encode_suite(cases, TOKENIZER, None)
    longer = [replace(prompt, tokens=prompt.tokens * 40) for prompt in asked]
    with pytest.raises(QueryFileError, match="in both sides' chat templates"):
        verify(
            cases.cases, asked, TOKENIZER, candidate=TinySession(), reference=TinySession(), reference_prompts=longer
        )
