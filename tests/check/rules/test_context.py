from __future__ import annotations

from chipwise.check.rules.context import context_of_model, context_of_target
from tests.check.graphs import given_decoder, q, target

RKLLM = target(context_max_tokens=q(400, "token"), context_multiple_tokens=q(32, "token"))


def test_longer_than_the_model_was_trained_for() -> None:
    (one,) = context_of_model(given_decoder(target(), max_context=513))
    assert (one.severity, one.measured, one.limit) == ("error", "513 tokens", "512 tokens")
    assert list(context_of_model(given_decoder(target(), max_context=512))) == []


def test_longer_than_the_runtime_takes() -> None:
    (one,) = context_of_target(given_decoder(RKLLM, max_context=416))
    assert one.limit == "at most 400 tokens"


def test_no_multiple() -> None:
    (one,) = context_of_target(given_decoder(RKLLM, max_context=100))
    assert (one.limit, one.remedy) == ("a multiple of 32 tokens", "Ask for 128 tokens")


def test_both_wrong_suggests_what_fits() -> None:
    found = list(context_of_target(given_decoder(RKLLM, max_context=500)))
    assert [f.remedy for f in found][1] == "Ask for 384 tokens"


def test_a_context_nobody_asked_for_is_not_held_against_it() -> None:
    assert list(context_of_target(given_decoder(RKLLM))) == []
    assert list(context_of_target(given_decoder(target(), max_context=100))) == []
